#include "costmodel/model/operand_counts.h"

#include <fmt/format.h>

#include <string_view>

namespace meshwright {
namespace {

// Least and most operands of a kind.
struct OperandCounts {
  std::size_t least_inputs, most_inputs, least_weights, most_weights, outputs;
};

OperandCounts operands_of(OpKind kind) {
  switch (kind) {
    case OpKind::Embedding:
      return {1, 1, 1, 1, 1};
    case OpKind::RelativeBias:
      return {0, 0, 1, 1, 1};
    case OpKind::Matmul:
      return {1, 1, 1, 2, 1};
    case OpKind::ExpertMatmul:
      return {2, 2, 1, 2, 1};
    case OpKind::LayerNorm:
      return {1, 1, 1, 2, 1};
    case OpKind::RmsNorm:
      return {1, 1, 1, 1, 1};
    case OpKind::Rope:
    case OpKind::Activation:
    case OpKind::Scale:
    case OpKind::Dropout:
    case OpKind::SelectFirst:
      return {1, 1, 0, 0, 1};
    case OpKind::Attention:
      return {3, 4, 0, 0, 1};
    case OpKind::GatedActivation:
    case OpKind::Dispatch:
    case OpKind::Combine:
    case OpKind::CrossEntropy:
      return {2, 2, 0, 0, 1};
    case OpKind::Add:
    case OpKind::Concat:
      return {1, 2, 0, 1, 1};
    case OpKind::Split:
      return {1, 1, 0, 0, 16};
    case OpKind::Router:
      return {1, 1, 0, 1, 2};
    case OpKind::Generic:
      return {0, 64, 0, 64, 64};
  }
  return {};
}

std::string count_problem(std::string_view what, std::size_t found, std::size_t least,
                          std::size_t most) {
  if (found >= least && found <= most) return {};
  if (least == most) return fmt::format("expected {} {}, found {}", most, what, found);
  return fmt::format("expected {} to {} {}, found {}", least, most, what, found);
}

}  // namespace

std::string operand_count_problem(const GraphOp& op) {
  const OperandCounts want = operands_of(op.kind);
  const bool many = op.kind == OpKind::Generic || op.kind == OpKind::Split;
  for (const std::string& problem :
       {count_problem("inputs", op.inputs.size(), want.least_inputs, want.most_inputs),
        count_problem("weights", op.weights.size(), want.least_weights, want.most_weights),
        count_problem("outputs", op.outputs.size(), many ? 1 : want.outputs, want.outputs)}) {
    if (!problem.empty()) return problem;
  }
  return {};
}

}  // namespace meshwright
