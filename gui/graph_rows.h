#pragma once

#include <string>
#include <vector>

#include "costmodel/model/model.h"
#include "simulator/plan/plan.h"
#include "simulator/program/program.h"

namespace meshwright {

// A line of the model's graph: a block that is repeated, or an op of it.
struct GraphRow {
  bool is_block = false;
  std::string name;    // of an op within its block: "attention.qkv"
  std::string kind;    // "matmul", "attention, ring"; of a block how often it is repeated
  std::string output;  // dimensions of the result with the axes that cut them: "hidden/tp"
  std::string weight;  // the same of its weights
  std::vector<std::size_t> inputs;  // rows that it reads, in the same block
  bool recomputed = false, offloaded = false;
};
std::vector<GraphRow> graph_rows(const Model& model, const Plan& plan,
                                 const std::vector<Program>& programs);

}  // namespace meshwright
