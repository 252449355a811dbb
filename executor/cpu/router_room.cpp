#include <algorithm>
#include <vector>

#include "executor/cpu/kernels.h"
#include "executor/router_math.h"

// Experts take the tokens of a sequence in their order while they have room, whoever has which part
// of it: devices tell each other what their pieces of it chose.
namespace meshwright {

void router_counts_forward(const KernelCall& call) {
  const auto expert = call.dense_rows<const std::int32_t>(0);
  const auto counts = call.dense_rows<std::int32_t>(1);
  const std::int64_t tokens = call.operand(0).sizes[1] / call.operand(1).sizes[1];
  for (std::int64_t p = 0; p < counts.count(); ++p) {
    std::fill_n(counts[p], counts.columns, 0);
    for (std::int64_t r = p * tokens; r < (p + 1) * tokens; ++r) {
      for (std::int64_t c = 0; c < expert.columns; ++c) ++counts[p][chosen_expert(expert[r][c])];
    }
  }
}

void router_room_forward(const KernelCall& call) {
  const auto expert = call.dense_rows<const std::int32_t>(0);
  const auto counts = call.dense_rows<const std::int32_t>(1);
  const auto left = call.dense_rows<std::int32_t>(2);
  const std::int64_t sequence = call.operand(0).sizes[1], pieces = call.operand(1).sizes[1];
  const DimPlace& places = call.kernel.place[1];
  const std::int64_t tokens = places.size / pieces;
  std::vector<std::int64_t> taken(static_cast<std::size_t>(counts.columns));
  for (std::int64_t r = 0; r < expert.count(); ++r) {
    const std::int64_t position = place_at(places, r % sequence);
    if (position % tokens == 0) {
      const std::int64_t first = r / sequence * pieces;
      std::ranges::fill(taken, 0);
      for (std::int64_t p = first; p < first + position / tokens; ++p) {
        for (std::size_t e = 0; e < taken.size(); ++e) taken[e] += counts[p][e];
      }
    }
    for (std::int64_t c = 0; c < expert.columns; ++c) {
      const std::int32_t e = expert[r][c];
      left[r][c] = taken[chosen_expert(e)]++ < *call.kernel.capacity ? e : ~e;
    }
  }
}

}  // namespace meshwright
