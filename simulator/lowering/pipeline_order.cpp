#include "simulator/lowering/pipeline_order.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "simulator/layout/layout.h"

namespace meshwright {
namespace {

OrderEntry entry(EntryKind kind, std::int64_t chunk, std::int64_t microbatch) {
  return {kind, static_cast<std::int32_t>(chunk), static_cast<std::int32_t>(microbatch)};
}

class UnitSchedule {
 public:
  explicit UnitSchedule(const Plan& plan)
      : plan_(plan), times_(plan.order.size()), free_(plan.order.size(), 0) {
    for (const auto& order : plan.order) {
      for (const OrderEntry& e : order) microbatches_ = std::max(microbatches_, e.microbatch + 1);
    }
    finish_.resize(plan.chunks.size() * kKinds * static_cast<std::size_t>(microbatches_));
  }

  std::optional<UnitTimes> run() {
    std::size_t left = 0;
    for (const auto& order : plan_.order) left += order.size();
    for (bool moved = true; left > 0 && moved;) {
      moved = false;
      for (std::size_t slot = 0; slot < plan_.order.size(); ++slot) {
        while (times_[slot].size() < plan_.order[slot].size() && start_next(slot)) {
          moved = true;
          --left;
        }
      }
    }
    if (left > 0) return std::nullopt;
    return std::move(times_);
  }

 private:
  static constexpr std::size_t kKinds = 4;

  // 0: not yet.
  std::int64_t& finish(EntryKind kind, std::int32_t chunk, std::int32_t microbatch) {
    const auto line = static_cast<std::size_t>(chunk) * kKinds + static_cast<std::size_t>(kind);
    return finish_[line * static_cast<std::size_t>(microbatches_) +
                   static_cast<std::size_t>(microbatch)];
  }

  // When what an entry needs is finished, besides its slot's earlier entries. None: not yet.
  std::optional<std::int64_t> ready(const OrderEntry& e) {
    const auto when = [&](EntryKind kind, std::int32_t chunk) {
      return finish(kind, chunk, e.microbatch);
    };
    const bool first = e.chunk == 0;
    const bool last = e.chunk + 1 == static_cast<std::int32_t>(plan_.chunks.size());
    std::int64_t own = 0, other = 0;
    switch (e.kind) {
      case EntryKind::Forward:
        if (first) return 0;
        own = other = when(EntryKind::Forward, e.chunk - 1);
        break;
      case EntryKind::Backward:
      case EntryKind::InputGradient:
        own = other = when(EntryKind::Forward, e.chunk);
        // It comes from a whole backward or alone.
        if (!last) {
          other = std::max(when(EntryKind::Backward, e.chunk + 1),
                           when(EntryKind::InputGradient, e.chunk + 1));
        }
        break;
      case EntryKind::WeightGradient:
        own = other = when(EntryKind::InputGradient, e.chunk);
        break;
    }
    if (own == 0 || other == 0) return std::nullopt;
    return std::max(own, other);
  }

  bool start_next(std::size_t slot) {
    const OrderEntry& next = plan_.order[slot][times_[slot].size()];
    const auto needed = ready(next);
    if (!needed) return false;
    const std::int64_t start = std::max(free_[slot], *needed);
    times_[slot].push_back(start);
    free_[slot] = start + 1;
    finish(next.kind, next.chunk, next.microbatch) = start + 1;
    return true;
  }

  const Plan& plan_;
  UnitTimes times_;
  std::vector<std::int64_t> free_;
  std::int32_t microbatches_ = 0;
  std::vector<std::int64_t> finish_;  // by chunk, kind and micro-batch
};

struct PipelineShape {
  std::int64_t stages = 1, chunks_per_stage = 1, microbatches = 1;
};

// Micro-batches go through a stage's chunks in groups of at least as many as there are stages:
// fewer would wait for their way round. All groups are as equal as can be.
std::int64_t groups_of(std::int64_t stages, std::int64_t microbatches) {
  return std::max<std::int64_t>(1, microbatches / stages);
}

// The forwards of a stage: which of its chunks, which micro-batch.
std::vector<std::pair<std::int64_t, std::int64_t>> forward_turns(const PipelineShape& shape) {
  const std::int64_t groups = groups_of(shape.stages, shape.microbatches);
  std::vector<std::pair<std::int64_t, std::int64_t>> turns;
  for (std::int64_t group = 0; group < groups; ++group) {
    const ShardRange own = part_of({0, shape.microbatches}, groups, group);
    for (std::int64_t chunk = 0; chunk < shape.chunks_per_stage; ++chunk) {
      for (std::int64_t m = 0; m < own.size; ++m) turns.emplace_back(chunk, own.start + m);
    }
  }
  return turns;
}

// As many forwards as `warmup`, then a forward and a backward in turn, then what backwards remain.
// Backwards take the forwards' turns, the chunks the other way round.
std::vector<OrderEntry> alternate(const PipelineShape& shape, std::int64_t stage,
                                  std::int64_t warmup) {
  const auto turns = forward_turns(shape);
  std::vector<OrderEntry> entries;
  std::size_t next = 0;
  const auto add_forward = [&] {
    if (next == turns.size()) return;
    const auto [chunk, microbatch] = turns[next++];
    entries.push_back(entry(EntryKind::Forward, chunk * shape.stages + stage, microbatch));
  };
  for (std::int64_t i = 0; i < warmup; ++i) add_forward();
  for (const auto& [turn, microbatch] : turns) {
    add_forward();
    const std::int64_t chunk = shape.chunks_per_stage - 1 - turn;
    entries.push_back(entry(EntryKind::Backward, chunk * shape.stages + stage, microbatch));
  }
  return entries;
}

}  // namespace

PipelineOrder one_forward_one_backward(std::int64_t stages, std::int64_t microbatches,
                                       std::int64_t chunks_per_stage) {
  const std::int64_t group = part_of({0, microbatches}, groups_of(stages, microbatches), 0).size;
  PipelineOrder order;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    // Later stages must be filled before the first gradient can come back. With several chunks a
    // group of micro-batches first goes through all of them but the last, and there are forwards
    // to do as well while the gradient comes back.
    const std::int64_t later = stages - stage - 1;
    const std::int64_t warmup =
        chunks_per_stage == 1 ? later : 2 * later + (chunks_per_stage - 1) * group;
    order.push_back(alternate({stages, chunks_per_stage, microbatches}, stage, warmup));
  }
  return order;
}

PipelineOrder gpipe(std::int64_t stages, std::int64_t microbatches, std::int64_t chunks_per_stage) {
  PipelineOrder order;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    order.push_back(alternate({stages, chunks_per_stage, microbatches}, stage,
                              chunks_per_stage * microbatches));
  }
  return order;
}

std::optional<UnitTimes> unit_times(const Plan& plan) { return UnitSchedule(plan).run(); }

}  // namespace meshwright
