#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/model/op_graph.h"
#include "simulator/program/program.h"

namespace meshwright {

// What a model is trained on. A row is a function of the step and of its place in the global
// batch, so every plan sees the same data. Called from several threads.
class DataSource {
 public:
  virtual ~DataSource() = default;
  // One row of an input. An input without a batch dimension has row 0 only.
  virtual void read_row(std::string_view input, std::int64_t step, std::int64_t row,
                        std::span<std::int32_t> values) const = 0;
};

// "tokens" drawn evenly from a vocabulary, "labels" the tokens that follow them, "positions"
// 0, 1, 2, ...
class RandomTokens : public DataSource {
 public:
  RandomTokens(std::uint64_t seed, std::int64_t vocabulary);
  void read_row(std::string_view input, std::int64_t step, std::int64_t row,
                std::span<std::int32_t> values) const override;

 private:
  std::uint64_t seed_;
  std::int64_t vocabulary_;
};

struct FixedInput {
  std::int64_t row_size = 0;
  std::vector<std::int32_t> values;
};

// Arrays of rows by the name of the input. A step takes the next `global_batch` rows; after the
// last comes the first again. "positions" need no array.
class FixedInputs : public DataSource {
 public:
  FixedInputs(std::int64_t global_batch, std::map<std::string, FixedInput, std::less<>> inputs);
  void read_row(std::string_view input, std::int64_t step, std::int64_t row,
                std::span<std::int32_t> values) const override;

 private:
  std::int64_t global_batch_;
  std::map<std::string, FixedInput, std::less<>> inputs_;
};

// A row of an input as a model names it. "tokens+2" and "labels+2" are the tokens and labels two
// places further on: beyond the row's end comes its last label, or 0, and no label counts.
void read_input(const DataSource& data, std::string_view input, std::int64_t step, std::int64_t row,
                std::span<std::int32_t> values);

// Below which number all indices of an input must be: the rows of the tables that it chooses from
// and the classes of the loss. None: no op of the graph reads it.
std::optional<std::int64_t> index_limit(const OpGraph& graph, std::string_view input);

// How many "labels" of a step's global batch count. None at all is an InputError.
std::int64_t count_labels(const DataSource& data, const BatchPlace& batch, std::int64_t step);

}  // namespace meshwright
