#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "costmodel/model/op_graph.h"
#include "simulator/plan/plan.h"

namespace meshwright {

// Segments of ops [first, end), some with segments inside, down to `depth`. Every tensor of theirs
// is kept with one chance in eight.
inline std::vector<RecomputeSegment> random_segments(
    const OpGraph& graph, std::size_t first, std::size_t end, int depth,
    const std::function<std::int64_t(std::int64_t, std::int64_t)>& between) {
  std::vector<RecomputeSegment> segments;
  while (first < end) {
    const auto length =
        static_cast<std::size_t>(between(1, static_cast<std::int64_t>(end - first)));
    if (between(0, 3) > 0) {
      RecomputeSegment segment{.first_op = first, .end_op = first + length};
      segment.rerun_all = between(0, 3) == 0;
      for (std::size_t op = first; op < first + length; ++op) {
        for (const TensorId tensor : graph.ops[op].outputs) {
          if (between(0, 7) == 0) segment.kept.push_back(graph.tensors[tensor.index()].name);
        }
      }
      if (depth > 1) {
        segment.inner = random_segments(graph, first, first + length, depth - 1, between);
      }
      segments.push_back(std::move(segment));
    }
    first += length;
  }
  return segments;
}

// The same in every chunk of a plan.
inline std::vector<RecomputeSegment> random_segments(
    const OpGraph& graph, const Plan& plan, int depth,
    const std::function<std::int64_t(std::int64_t, std::int64_t)>& between) {
  std::vector<RecomputeSegment> all;
  for (const Chunk& chunk : plan.chunks) {
    for (RecomputeSegment& segment :
         random_segments(graph, chunk.first_op, chunk.end_op, depth, between)) {
      all.push_back(std::move(segment));
    }
  }
  return all;
}

}  // namespace meshwright
