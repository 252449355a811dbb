#include "executor/data_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <vector>

#include "costmodel/base/input_error.h"
#include "executor/random.h"

namespace meshwright {
namespace {

[[noreturn]] void throw_no_input(std::string_view input) {
  throw InputError(fmt::format("there is no data for the input \"{}\"", printable(input)));
}

// "labels+2" is "labels", 2.
struct ShiftedInput {
  std::string_view name;
  std::size_t places = 0;
};
ShiftedInput shifted_input(std::string_view input) {
  const std::size_t plus = input.rfind('+');
  if (plus == std::string_view::npos) return {input};
  const std::string_view number = input.substr(plus + 1);
  ShiftedInput shifted{input.substr(0, plus)};
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), shifted.places);
  const bool whole = error == std::errc() && end == number.data() + number.size();
  return whole ? shifted : ShiftedInput{input};
}

}  // namespace

RandomTokens::RandomTokens(std::uint64_t seed, std::int64_t vocabulary)
    : seed_(seed), vocabulary_(vocabulary) {}

void RandomTokens::read_row(std::string_view input, std::int64_t step, std::int64_t row,
                            std::span<std::int32_t> values) const {
  if (input == "positions") return std::iota(values.begin(), values.end(), 0);
  if (input != "tokens" && input != "labels") throw_no_input(input);
  const RandomKey key = random_key(seed_, fmt::format("tokens {}", row), step);
  const std::size_t first = input == "labels" ? 1 : 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::int32_t>(random_uniform(key, first + i) *
                                          static_cast<double>(vocabulary_));
  }
}

FixedInputs::FixedInputs(std::int64_t global_batch,
                         std::map<std::string, FixedInput, std::less<>> inputs)
    : global_batch_(global_batch), inputs_(std::move(inputs)) {}

void FixedInputs::read_row(std::string_view input, std::int64_t step, std::int64_t row,
                           std::span<std::int32_t> values) const {
  const auto found = inputs_.find(input);
  if (found == inputs_.end()) {
    if (input == "positions") return std::iota(values.begin(), values.end(), 0);
    throw_no_input(input);
  }
  const FixedInput& fixed = found->second;
  if (fixed.row_size != static_cast<std::int64_t>(values.size()) || fixed.values.empty()) {
    throw InputError(fmt::format("the input \"{}\" has rows of {}, expected {}", printable(input),
                                 fixed.row_size, values.size()));
  }
  const std::int64_t rows = static_cast<std::int64_t>(fixed.values.size()) / fixed.row_size;
  const std::int64_t first = (step * global_batch_ + row) % rows * fixed.row_size;
  std::copy_n(fixed.values.begin() + first, fixed.row_size, values.begin());
}

void read_input(const DataSource& data, std::string_view input, std::int64_t step, std::int64_t row,
                std::span<std::int32_t> values) {
  const auto [name, places] = shifted_input(input);
  data.read_row(name, step, row, values);
  const std::size_t shift = std::min(places, values.size());
  if (shift == 0) return;
  std::int32_t after = -1;
  if (name == "tokens") {
    std::vector<std::int32_t> labels(values.size());
    data.read_row("labels", step, row, labels);
    after = std::max(labels.back(), 0);
  }
  const auto rest =
      std::shift_left(values.begin(), values.end(), static_cast<std::ptrdiff_t>(shift));
  std::fill(rest, values.end(), after);
}

std::optional<std::int64_t> index_limit(const OpGraph& graph, std::string_view input) {
  std::optional<std::int64_t> least;
  const auto lower_to = [&](DimId dim) {
    const std::int64_t size = graph.dims[dim.index()].size;
    least = std::min(least.value_or(size), size);
  };
  for (const GraphOp& op : graph.ops) {
    for (const TensorId read : op.inputs) {
      if (graph.tensors[read.index()].name != input) continue;
      if (op.kind == OpKind::Embedding) lower_to(graph.weights[op.weights[0].index()].dims[0]);
      if (op.kind == OpKind::CrossEntropy) {
        lower_to(graph.tensors[op.inputs[0].index()].dims.back());
      }
    }
  }
  return least;
}

std::int64_t count_labels(const DataSource& data, const BatchPlace& batch, std::int64_t step) {
  std::vector<std::int32_t> labels(static_cast<std::size_t>(batch.sequence));
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < batch.global_batch; ++row) {
    data.read_row("labels", step, row, labels);
    count += std::ranges::count_if(labels, [](std::int32_t label) { return label >= 0; });
  }
  if (count == 0) throw InputError(fmt::format("no label of step {} counts", step));
  return count;
}

}  // namespace meshwright
