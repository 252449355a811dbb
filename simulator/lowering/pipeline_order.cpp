#include "simulator/lowering/pipeline_order.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace meshwright {
namespace {

OrderEntry entry(EntryKind kind, std::int64_t chunk, std::int64_t microbatch) {
  return {kind, static_cast<std::int32_t>(chunk), static_cast<std::int32_t>(microbatch)};
}

// What must be finished before an entry, besides its slot's earlier entries. Any one of a line
// will do: a gradient of the input comes from a whole backward or alone.
std::vector<std::vector<OrderEntry>> needed_by(const OrderEntry& e, std::int32_t chunks) {
  const auto either = [&](std::int32_t chunk) {
    return std::vector<OrderEntry>{entry(EntryKind::Backward, chunk, e.microbatch),
                                   entry(EntryKind::InputGradient, chunk, e.microbatch)};
  };
  std::vector<std::vector<OrderEntry>> needed;
  switch (e.kind) {
    case EntryKind::Forward:
      if (e.chunk > 0) needed.push_back({entry(EntryKind::Forward, e.chunk - 1, e.microbatch)});
      return needed;
    case EntryKind::Backward:
    case EntryKind::InputGradient:
      needed.push_back({entry(EntryKind::Forward, e.chunk, e.microbatch)});
      if (e.chunk + 1 < chunks) needed.push_back(either(e.chunk + 1));
      return needed;
    case EntryKind::WeightGradient:
      needed.push_back({entry(EntryKind::InputGradient, e.chunk, e.microbatch)});
      return needed;
  }
  return needed;
}

class UnitSchedule {
 public:
  explicit UnitSchedule(const Plan& plan)
      : plan_(plan), times_(plan.order.size()), free_(plan.order.size(), 0) {}

  std::optional<std::vector<std::vector<std::int64_t>>> run() {
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
  using Key = std::tuple<EntryKind, std::int32_t, std::int32_t>;

  bool start_next(std::size_t slot) {
    const OrderEntry& next = plan_.order[slot][times_[slot].size()];
    std::int64_t start = free_[slot];
    for (const auto& line : needed_by(next, static_cast<std::int32_t>(plan_.chunks.size()))) {
      bool found = false;
      for (const OrderEntry& e : line) {
        const auto finish = finish_.find({e.kind, e.chunk, e.microbatch});
        if (finish == finish_.end()) continue;
        found = true;
        start = std::max(start, finish->second);
      }
      if (!found) return false;
    }
    times_[slot].push_back(start);
    free_[slot] = start + 1;
    finish_[{next.kind, next.chunk, next.microbatch}] = start + 1;
    return true;
  }

  const Plan& plan_;
  std::vector<std::vector<std::int64_t>> times_;
  std::vector<std::int64_t> free_;
  std::map<Key, std::int64_t> finish_;
};

}  // namespace

std::vector<std::vector<OrderEntry>> one_forward_one_backward(std::int64_t stages,
                                                              std::int64_t microbatches) {
  std::vector<std::vector<OrderEntry>> order;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    // Later stages must be filled before the first gradient can come back.
    const std::int64_t warmup = std::min(stages - stage - 1, microbatches);
    std::vector<OrderEntry> entries;
    for (std::int64_t m = 0; m < warmup; ++m) {
      entries.push_back(entry(EntryKind::Forward, stage, m));
    }
    for (std::int64_t m = 0; m < microbatches; ++m) {
      if (m + warmup < microbatches) {
        entries.push_back(entry(EntryKind::Forward, stage, m + warmup));
      }
      entries.push_back(entry(EntryKind::Backward, stage, m));
    }
    order.push_back(std::move(entries));
  }
  return order;
}

std::vector<std::vector<OrderEntry>> gpipe(std::int64_t stages, std::int64_t microbatches) {
  std::vector<std::vector<OrderEntry>> order;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    std::vector<OrderEntry> entries;
    for (const EntryKind kind : {EntryKind::Forward, EntryKind::Backward}) {
      for (std::int64_t m = 0; m < microbatches; ++m) entries.push_back(entry(kind, stage, m));
    }
    order.push_back(std::move(entries));
  }
  return order;
}

std::optional<std::vector<std::vector<std::int64_t>>> unit_times(const Plan& plan) {
  return UnitSchedule(plan).run();
}

}  // namespace meshwright
