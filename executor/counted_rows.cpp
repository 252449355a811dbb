#include "executor/counted_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace meshwright {

std::vector<std::int64_t> RowCounts::counts_in(LaneId lane, const Operand& operand,
                                               BufferId buffer) const {
  const Places places(operand.sizes, operand.strides);
  const auto extent = places.count() == 0 ? 0 : places[places.count() - 1] + 1;
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(extent));
  const auto* start = reinterpret_cast<const std::int32_t*>(buffers_.start_of(buffer));
  device_.read(lane, reinterpret_cast<const std::byte*>(start + operand.offset),
               std::as_writable_bytes(std::span(numbers)));
  std::vector<std::int64_t> counts;
  for (std::int64_t i = 0; i < places.count(); ++i) {
    counts.push_back(numbers[static_cast<std::size_t>(places[i])]);
  }
  return counts;
}

void RowCounts::check_room(std::int64_t rows, const Operand& operand, BufferId buffer) const {
  const Buffer& entry = program_.buffers[buffer.index()];
  if (rows * operand.sizes.back() <= entry.count) return;
  throw std::logic_error(fmt::format("device {}: {} rows come for {}, which has room for {}",
                                     program_.device.index(), rows, entry.name.text(),
                                     entry.count / operand.sizes.back()));
}

Transfer RowCounts::counted(LaneId lane, const Transfer& transfer,
                            std::span<const BufferId> operands) const {
  const auto place = std::ranges::find(transfer.group, program_.device) - transfer.group.begin();
  Transfer known = with_counts(transfer, counts_in(lane, transfer.rows->counts, operands[2]),
                               static_cast<std::size_t>(place));
  check_room(known.source->sizes[0], *known.source, operands[0]);
  check_room(known.target->sizes[0], *known.target, operands[1]);
  return known;
}

std::vector<std::int64_t> RowCounts::counts_of(LaneId lane, const Kernel& kernel,
                                               std::span<const BufferId> operands) const {
  if (!kernel.counts) return {};
  return counts_in(lane, kernel.operands[*kernel.counts], operands[*kernel.counts]);
}

Kernel RowCounts::counted(const Kernel& kernel, std::span<const std::int64_t> counts,
                          std::span<const BufferId> operands) const {
  Kernel known = kernel;
  const auto rows = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  for (std::size_t i = 0; i < known.operands.size(); ++i) {
    if (!known.operands[i].counted) continue;
    known.operands[i].sizes[0] = rows;
    check_room(rows, known.operands[i], operands[i]);
  }
  return known;
}

}  // namespace meshwright
