#include "tests/planner/all_plans.h"

#include <algorithm>
#include <variant>

#include "planner/search/space.h"

namespace meshwright {
namespace {

// What plans may need.
Bytes room_of(const SearchQuestion& question, const Setting& setting) {
  const Bytes own = setting.cluster.node_types.front().device.memory.value;
  const Bytes capacity = question.max_memory ? std::min(*question.max_memory, own) : own;
  return Bytes(
      static_cast<std::int64_t>((1 - kCloseShare) * static_cast<double>(capacity.value())));
}

// All ways to recompute, and mixes of those next to each other where one of both finds room.
std::vector<PlanChoices> kept_ways(const PlanChoices& partial, const SearchSpace& space,
                                   Bounds& bounds, Bytes room) {
  std::vector<PlanChoices> ways = space.partly_offloaded(partial);
  const auto finds_room = [&](PlanChoices one) {
    const bool known = std::holds_alternative<BlockBounds>(bounds.blocks(one));
    return known && bounds.bytes_of(space.leanest_optimizer(one)) <= room;
  };
  for (const PlanChoices& kept : space.recomputes(partial)) {
    ways.push_back(kept);
    auto more = space.dropping_more(kept);
    if (!more) continue;
    PlanChoices next = kept;
    next.recompute = {Recompute::Drop, 0, more->recompute.dropped};
    if (!finds_room(kept) && !finds_room(next)) continue;
    for (; more; more = space.dropping_more(*more)) ways.push_back(*more);
  }
  return ways;
}

}  // namespace

std::vector<PlanChoices> all_plans(const SearchQuestion& question, const Setting& setting) {
  const SearchSpace space(question, setting);
  const Bytes room = room_of(question, setting);
  Bounds bounds(question.batch, setting);
  std::vector<PlanChoices> plans;
  for (const PlanChoices& mesh : space.meshes())
    for (const PlanChoices& sized : space.microbatches(mesh))
      for (const PlanChoices& split : space.splits(sized))
        for (const PlanChoices& shared : space.sharings(split))
          for (const PlanChoices& placed : space.places(shared))
            for (const PlanChoices& scheduled : space.schedules(placed)) {
              if (!std::holds_alternative<BlockBounds>(bounds.blocks(scheduled))) continue;
              for (const PlanChoices& layered : space.layerings(scheduled, bounds))
                for (const PlanChoices& offloaded : space.offloads(layered))
                  for (const PlanChoices& zero : space.zeros(offloaded))
                    for (const PlanChoices& kept : kept_ways(zero, space, bounds, room))
                      for (const PlanChoices& one : space.buckets(kept)) plans.push_back(one);
            }
  return plans;
}

std::optional<Seconds> best_of_all(const SearchQuestion& question, const Setting& setting) {
  std::optional<Seconds> best;
  const Bytes room = room_of(question, setting);
  for (const PlanChoices& choices : all_plans(question, setting)) {
    const auto made = plan_of(choices, question.batch, setting);
    if (!std::holds_alternative<Plan>(made)) continue;
    const Report report = predict(std::get<Plan>(made), setting).report;
    if (report.fits != Fit::Yes || Report::needed(report.fullest()) > room) continue;
    if (!best || report.step < *best) best = report.step;
  }
  return best;
}

std::optional<Bytes> least_of_all(const SearchQuestion& question, const Setting& setting) {
  std::optional<Bytes> least;
  for (const PlanChoices& choices : all_plans(question, setting)) {
    const auto made = plan_of(choices, question.batch, setting);
    if (!std::holds_alternative<Plan>(made)) continue;
    const Report report = predict(std::get<Plan>(made), setting).report;
    if (report.host && report.host->is_too_much()) continue;
    const Bytes needed = Report::needed(report.fullest());
    least = std::min(least.value_or(needed), needed);
  }
  return least;
}

}  // namespace meshwright
