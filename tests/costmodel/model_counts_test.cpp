#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "costmodel/model/model.h"
#include "costmodel/model/model_costs.h"
#include "costmodel/model/model_name.h"

namespace meshwright {
namespace {

struct Row {
  std::string name;
  std::int64_t parameters = 0;
  std::optional<std::int64_t> flops, linear, attention, sequence;
};

std::vector<Row> read_rows(const std::string& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  std::vector<Row> rows;
  while (std::getline(stream, line)) {
    std::vector<std::string> cells;
    std::istringstream cut(line);
    for (std::string cell; std::getline(cut, cell, ',');) cells.push_back(cell);
    cells.resize(7);
    const auto number = [](const std::string& text) {
      return text.empty() ? std::nullopt : std::optional(std::stoll(text));
    };
    rows.push_back({cells[0], std::stoll(cells[2]), number(cells[3]), number(cells[4]),
                    number(cells[5]), number(cells[6])});
  }
  return rows;
}

void check_counts(const Row& row, const std::string& file) {
  CAPTURE(row.name);
  const Model model = make_model(read_model(file, MESHWRIGHT_DATA));
  CHECK(count_parameters(model).total == row.parameters);
  if (!row.flops) return;
  const ModelCosts profile =
      model_costs(model, {.micro_batch = 1, .sequence = row.sequence.value_or(1)});
  CHECK(profile.total.forward.value() == *row.flops);
  // A convolution is counted in the total alone.
  if (row.linear && *row.linear + *row.attention == *row.flops) {
    CHECK(profile.linear_forward.value() == *row.linear);
  }
  if (row.attention) CHECK(profile.attention_forward.value() == *row.attention);
  CHECK(profile.total.parameters == row.parameters);
}

}  // namespace

// Counted by another framework on its own model classes (transformers 4.57).
TEST_CASE("parameters and forward FLOPs of published models are exact") {
  const auto rows = read_rows(MESHWRIGHT_TEST_DATA "/model_counts.csv");
  REQUIRE(rows.size() == 58);
  for (const Row& row : rows) check_counts(row, row.name);
}

TEST_CASE("parameters and forward FLOPs of small mixtures of experts are exact") {
  const auto rows = read_rows(MESHWRIGHT_TEST_DATA "/tiny_moe/counts.csv");
  REQUIRE(rows.size() == 7);
  for (const Row& row : rows) {
    check_counts(row, MESHWRIGHT_TEST_DATA "/tiny_moe/" + row.name + ".json");
  }
}

}  // namespace meshwright
