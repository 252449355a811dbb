#include "planner/bound/pipeline_items.h"

#include <algorithm>

#include "simulator/lowering/receive_places.h"

namespace meshwright {
namespace {

// Only what receptions are placed by.
Plan bare_plan(PipelineOrder order, std::int64_t stages, std::int64_t chunks) {
  Plan plan;
  plan.order = std::move(order);
  for (std::int64_t c = 0; c < chunks; ++c) {
    const auto op = static_cast<std::size_t>(c);
    plan.chunks.push_back({op, op + 1, static_cast<std::size_t>(c % stages)});
  }
  return plan;
}

std::vector<Reception> receptions_of(const Plan& plan, std::size_t slot) {
  std::vector<Reception> receptions;
  for (std::size_t i = 0; i < plan.order[slot].size(); ++i) {
    const OrderEntry& entry = plan.order[slot][i];
    const auto chunk = static_cast<std::size_t>(entry.chunk);
    if (entry.kind == EntryKind::Forward && chunk > 0) receptions.push_back({i, chunk - 1});
    if (entry.kind == EntryKind::Backward && chunk + 1 < plan.chunks.size()) {
      receptions.push_back({i, chunk + 1});
    }
  }
  return receptions;
}

PipelineItem item_of(const OrderEntry& entry, bool receives) {
  return {.receives = receives,
          .forward = entry.kind == EntryKind::Forward,
          .chunk = entry.chunk,
          .microbatch = entry.microbatch};
}

void mark_last(std::vector<PipelineItem>& items, std::int64_t chunks) {
  std::vector<bool> seen(static_cast<std::size_t>(chunks), false);
  for (std::size_t i = items.size(); i-- > 0;) {
    if (items[i].receives || items[i].forward) continue;
    const auto chunk = static_cast<std::size_t>(items[i].chunk);
    items[i].last = !seen[chunk];
    seen[chunk] = true;
  }
}

}  // namespace

PipelineOrder order_of(Schedule schedule, std::int64_t stages, std::int64_t microbatches,
                       std::int64_t chunks_per_stage) {
  return schedule == Schedule::GPipe
             ? gpipe(stages, microbatches, chunks_per_stage)
             : one_forward_one_backward(stages, microbatches, chunks_per_stage);
}

PipelineItems pipeline_items(Schedule schedule, std::int64_t stages, std::int64_t microbatches,
                             std::int64_t chunks_per_stage) {
  const std::int64_t chunks = stages * chunks_per_stage;
  const Plan plan =
      bare_plan(order_of(schedule, stages, microbatches, chunks_per_stage), stages, chunks);
  // With one chunk a stage what is received stands before its reader.
  const UnitTimes times = chunks_per_stage > 1 ? unit_times(plan).value() : UnitTimes();
  PipelineItems items;
  for (std::size_t slot = 0; slot < plan.order.size(); ++slot) {
    const auto receptions = receptions_of(plan, slot);
    std::vector<std::vector<Reception>> places(plan.order[slot].size());
    if (chunks_per_stage > 1) {
      places = place_receptions(plan, times, slot, receptions);
    } else {
      for (const Reception& reception : receptions) places[reception.entry].push_back(reception);
    }
    auto& own = items.stages.emplace_back();
    for (std::size_t i = 0; i < plan.order[slot].size(); ++i) {
      for (const Reception& reception : places[i]) {
        own.push_back(item_of(plan.order[slot][reception.entry], true));
      }
      own.push_back(item_of(plan.order[slot][i], false));
    }
    mark_last(own, chunks);
  }
  return items;
}

}  // namespace meshwright
