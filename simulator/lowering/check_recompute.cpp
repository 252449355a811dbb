#include "simulator/lowering/check_recompute.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

using Problems = std::vector<std::string>;

bool produces(const RecomputeSegment& segment, const std::string& name, const OpGraph& graph) {
  for (std::size_t op = segment.first_op; op < segment.end_op; ++op) {
    for (const TensorId tensor : graph.ops[op].outputs) {
      if (graph.tensors[tensor.index()].name == name) return true;
    }
  }
  return false;
}

void check_segments(Problems& problems, const std::vector<RecomputeSegment>& segments,
                    const OpGraph& graph) {
  std::size_t next = 0;
  for (const RecomputeSegment& segment : segments) {
    const std::string ops =
        fmt::format("recompute: ops {} to {}", segment.first_op, segment.end_op);
    if (segment.first_op < next || segment.end_op <= segment.first_op) {
      problems.push_back(fmt::format("{}, expected some that start at {} or later", ops, next));
    }
    next = segment.end_op;
    for (const std::string& kept : segment.kept) {
      if (produces(segment, kept, graph)) continue;
      problems.push_back(fmt::format("{} do not produce {}", ops, printable(kept)));
    }
    for (const RecomputeSegment& inner : segment.inner) {
      if (inner.first_op >= segment.first_op && inner.end_op <= segment.end_op) continue;
      problems.push_back(
          fmt::format("recompute: ops {} to {} are not within ops {} to {} around them",
                      inner.first_op, inner.end_op, segment.first_op, segment.end_op));
      return;
    }
    check_segments(problems, segment.inner, graph);
  }
}

}  // namespace

std::vector<std::string> check_recompute(const Plan& plan, const OpGraph& graph) {
  Problems problems;
  for (const RecomputeSegment& segment : plan.recompute) {
    const bool inside =
        std::any_of(plan.chunks.begin(), plan.chunks.end(), [&](const Chunk& chunk) {
          return chunk.first_op <= segment.first_op && segment.end_op <= chunk.end_op;
        });
    if (inside) continue;
    return {fmt::format("recompute: ops {} to {} are not within one chunk", segment.first_op,
                        segment.end_op)};
  }
  check_segments(problems, plan.recompute, graph);
  return problems;
}

}  // namespace meshwright
