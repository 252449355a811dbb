#pragma once

#include <cudnn.h>

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/standin/numbers.h"

namespace meshwright::standin {

// Batch, heads, rows, columns.
using DnnSizes = std::array<std::int64_t, 4>;

struct DnnTensor {
  std::int64_t id = 0, alignment = 1;
  Number number = Number::Float;
  DnnSizes sizes{}, steps{};
  bool is_virtual = false, by_value = false;

  std::int64_t count() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
  std::size_t bytes() const;  // of its memory
};

enum class DnnKind { Product, Pointwise, Reduction, Reshape };

struct DnnOperation {
  DnnKind kind = DnnKind::Product;
  int mode = 0;           // of a pointwise operation or a reduction
  std::int64_t axis = 0;  // whose places are generated
  std::vector<DnnTensor> inputs;
  DnnTensor output;
};

struct DnnGraph {
  std::vector<DnnOperation> operations;
  // Those that somebody has to give, by their numbers.
  std::map<std::int64_t, DnnTensor> outside() const;
};

// Why cuDNN does not take an operation; empty: it does.
std::string refusal_of(const DnnOperation& operation);
// Whether it has an engine for the graph, as of 9.19: heads of at most 256, in eights.
bool has_engine(const DnnGraph& graph);
void run_graph(const DnnGraph& graph, const std::map<std::int64_t, void*>& memory,
               const std::map<std::int64_t, double>& numbers);

}  // namespace meshwright::standin
