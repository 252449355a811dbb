#include "simulator/lowering/check_inputs.h"

#include <fmt/format.h>

#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

std::vector<DimRole> roles_of(const OpGraph& graph, TensorId tensor) {
  std::vector<DimRole> roles;
  for (const DimId dim : graph.tensors[tensor.index()].dims) {
    roles.push_back(graph.dims[dim.index()].role);
  }
  return roles;
}

}  // namespace

std::vector<std::string> check_inputs(const OpGraph& graph) {
  std::vector<std::string> problems;
  const auto add = [&](TensorId input, std::string_view problem) {
    problems.push_back(fmt::format("input {}: {} are not lowered yet",
                                   printable(graph.tensors[input.index()].name), problem));
  };
  for (const TensorId input : graph.inputs) {
    const auto roles = roles_of(graph, input);
    const bool in_rows = roles.size() > 1 && roles[0] == DimRole::Batch;
    const bool in_one = roles.size() == 1 && roles[0] != DimRole::Batch;
    if (!in_rows && !in_one) {
      add(input, "other dimensions than [batch, ..], or one without the batch,");
    }
  }
  for (const GraphOp& op : graph.ops) {
    if (op.kind != OpKind::CrossEntropy) continue;
    if (roles_of(graph, op.inputs[1]) == std::vector{DimRole::Batch, DimRole::Sequence}) continue;
    add(op.inputs[1], "other labels than one for each token, [batch, sequence],");
  }
  return problems;
}

}  // namespace meshwright
