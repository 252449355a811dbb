#include "planner/search/nearest_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

namespace meshwright {

// Where devices have enough, hosts have too little memory: that is nearest only if nothing else
// is.
bool NearestPlan::is_nearer(Bytes needed, const std::optional<Nearest>& nearest) const {
  const auto key = [&](Bytes bytes) { return std::pair(bytes <= room_, bytes); };
  return !nearest || key(needed) < key(nearest->needed);
}

void NearestPlan::note(const PlanChoices& choices, Bytes needed) {
  if (is_nearer(needed, nearest_)) nearest_ = Nearest{choices, needed, capacity_};
}

// Of sets of which little is decided only part of what they need is known: they count where there
// is nothing else. Of the others it takes long to know all.
void NearestPlan::note_large(const Node& node) {
  constexpr std::size_t kLeast = 100;
  if (node.bound.bytes <= room_) return note(node.choices, node.bound.bytes);
  if (node.depth < Depth::Recompute && node.depth != Depth::Memory) {
    if (!early_ || node.bound.bytes < early_->bound.bytes) early_ = node;
  } else {
    large_.emplace(node.bound.bytes, node);
    if (large_.size() > kLeast) large_.erase(std::prev(large_.end()));
  }
}

std::optional<Nearest> NearestPlan::settled(SetBounds& bounds, bool simulated) const {
  std::optional<Nearest> nearest = nearest_;
  const auto look_at = [&](const Node& node) {
    const auto [choices, least] = bounds.leanest(node);
    const Bytes bytes = std::max(least, node.bound.bytes);
    if (is_nearer(bytes, nearest)) nearest = Nearest{choices, bytes, capacity_};
  };
  for (const auto& [bytes, node] : large_) {
    if (nearest && nearest->needed > room_ && nearest->needed <= bytes) break;
    look_at(node);
  }
  if (early_ && !nearest) look_at(*early_);
  if (!nearest || !simulated) return nearest;
  const auto made = plan_of(nearest->choices, question_.batch, setting_);
  if (!std::holds_alternative<Plan>(made)) return nearest;
  const Report report = predict(std::get<Plan>(made), setting_).report;
  nearest->needed = Report::needed(report.fullest());
  if (report.host && report.host->is_too_much()) nearest->host = report.host;
  return nearest;
}

}  // namespace meshwright
