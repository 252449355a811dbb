#include "simulator/lowering/check_order.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "simulator/lowering/pipeline_order.h"

namespace meshwright {
namespace {

using EntryCounts = std::map<std::tuple<EntryKind, std::int32_t, std::int32_t>, int>;

// A forward, and a backward that is one entry or two.
bool is_complete(EntryCounts& seen, std::int32_t chunk, std::int32_t m) {
  const int whole = seen[{EntryKind::Backward, chunk, m}];
  const int input = seen[{EntryKind::InputGradient, chunk, m}];
  const int weight = seen[{EntryKind::WeightGradient, chunk, m}];
  const bool once =
      (whole == 1 && input == 0 && weight == 0) || (whole == 0 && input == 1 && weight == 1);
  return once && seen[{EntryKind::Forward, chunk, m}] == 1;
}

void check_slot(const Plan& plan, std::size_t slot, std::vector<std::string>& problems) {
  const std::int64_t microbatches = microbatch_count(plan);
  EntryCounts seen;
  for (const OrderEntry& entry : plan.order[slot]) {
    const auto chunk = static_cast<std::size_t>(entry.chunk);
    if (chunk >= plan.chunks.size() || plan.chunks[chunk].slot != slot ||
        entry.microbatch >= microbatches) {
      problems.push_back(
          fmt::format("slot {}: {} is not a chunk and micro-batch of it", slot, to_text(entry)));
    }
    ++seen[{entry.kind, entry.chunk, entry.microbatch}];
  }
  for (std::size_t c = 0; c < plan.chunks.size(); ++c) {
    if (plan.chunks[c].slot != slot) continue;
    for (std::int32_t m = 0; m < microbatches; ++m) {
      if (is_complete(seen, static_cast<std::int32_t>(c), m)) continue;
      problems.push_back(
          fmt::format("slot {}: chunk {} needs one forward and one backward (or I and W once each) "
                      "of micro-batch {}",
                      slot, c, m));
    }
  }
}

}  // namespace

std::vector<std::string> check_order(const Plan& plan) {
  if (plan.order.size() != plan.slots.size()) {
    return {fmt::format("{} orders for {} slots", plan.order.size(), plan.slots.size())};
  }
  std::vector<std::string> problems;
  for (std::size_t slot = 0; slot < plan.order.size(); ++slot) check_slot(plan, slot, problems);
  if (problems.empty() && !unit_times(plan)) {
    problems.emplace_back("the orders of the slots wait for each other in a circle");
  }
  return problems;
}

}  // namespace meshwright
