#include "planner/search/shared_bounds.h"

#include <algorithm>
#include <utility>

#include "costmodel/base/input_error.h"

namespace meshwright {

SharedBounds::SharedBounds(const SearchSpace& space, Bytes room, std::unique_ptr<Bounds> bounds,
                           Crew& crew, std::stop_token stop)
    : crew_(crew), stop_(std::move(stop)) {
  sets_.emplace_back(space, room, std::move(bounds));
  while (sets_.size() < crew_.size()) {
    sets_.emplace_back(space, room, sets_.front().bounds().for_another_thread());
  }
}

// Sizes beyond 64 bits are no choice; of sets with any micro-batch others have smaller ones.
std::variant<PlanBound, Reasons> SharedBounds::bound_of(std::size_t thread, Child& child) {
  try {
    return sets_[thread].of(child);
  } catch (const InputError& error) {
    if (child.depth > Depth::Kernels) return Reasons{error.what()};
    return PlanBound{sets_[thread].bounds().of_mesh(child.choices), Bytes(), Bytes()};
  }
}

std::vector<std::variant<PlanBound, Reasons>> SharedBounds::of(std::vector<Child>& children) {
  std::vector<std::variant<PlanBound, Reasons>> found(children.size());
  const auto bound = [&](std::size_t thread, std::size_t i) {
    if (!stop_.stop_requested()) found[i] = bound_of(thread, children[i]);
  };
  // The first bounds take less time than sharing them out.
  const bool few = children.empty() || children.front().depth < Depth::Offload;
  for (std::size_t i = 0; few && i < children.size(); ++i) bound(0, i);
  if (!few) crew_.each(children.size(), bound);
  for (std::size_t i = 0; i < children.size(); ++i) {
    auto* own = std::get_if<PlanBound>(&found[i]);
    if (!own || children[i].depth != Depth::Played || stop_.stop_requested()) continue;
    own->step = of_played(children[i].choices);
  }
  return found;
}

// With the best bucket, whatever is kept. It takes long: only sets that are next are asked, and
// of their buckets those that may be better than the one with the least bound.
Seconds SharedBounds::of_played(const PlanChoices& choices) {
  std::vector<BoundedPlan> plans = sets_.front().bounded_buckets(choices);
  if (plans.empty()) return Seconds(0);
  const Seconds first = bounds().step_of(plans.front().choices);
  plans.erase(plans.begin());
  std::erase_if(plans, [&](const BoundedPlan& plan) { return plan.least >= first; });
  std::vector<Seconds> steps(plans.size());
  crew_.each(plans.size(), [&](std::size_t thread, std::size_t i) {
    steps[i] = sets_[thread].bounds().step_of(plans[i].choices);
  });
  steps.push_back(first);
  return std::ranges::min(steps);
}

}  // namespace meshwright
