#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

namespace meshwright {

// Rows by turns: what is fitted and what is predicted.
template <class Row>
struct Halves {
  std::vector<Row> fitted, held;
};
template <class Row>
Halves<Row> halves(const std::vector<Row>& rows) {
  Halves<Row> result;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    (i % 2 == 0 ? result.fitted : result.held).push_back(rows[i]);
  }
  return result;
}

template <class Row, class Wanted>
Halves<Row> only(const Halves<Row>& rows, const Wanted& wanted) {
  Halves<Row> some;
  std::ranges::copy_if(rows.fitted, std::back_inserter(some.fitted), wanted);
  std::ranges::copy_if(rows.held, std::back_inserter(some.held), wanted);
  return some;
}

template <class Row, class Predict>
double mean_error(const std::vector<Row>& rows, const Predict& predict) {
  double sum = 0;
  for (const Row& row : rows) sum += std::abs(predict(row) / row.time - 1);
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

// Of logarithms: to be half as long is as wrong as to be twice as long.
template <class Row, class Predict>
double mean_log_error(const std::vector<Row>& rows, const Predict& predict) {
  double sum = 0;
  for (const Row& row : rows) sum += std::abs(std::log(predict(row) / row.time));
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

template <class Row, class Predict>
void print_errors(const std::string& what, const Halves<Row>& rows, const Predict& predict) {
  if (rows.held.empty()) return;
  fmt::print("  {:<34} {:>5} rows  fitted {:5.1f} %  held out {:5.1f} %\n", what,
             rows.fitted.size() + rows.held.size(), 100 * mean_error(rows.fitted, predict),
             100 * mean_error(rows.held, predict));
}

}  // namespace meshwright
