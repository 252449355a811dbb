#include "gui/plan_points.h"

#include <algorithm>

namespace meshwright {
namespace {

constexpr double kBytesOfGiB = 1024.0 * 1024 * 1024;

void find_extent(PlanPoints& points, double limit) {
  const bool any = std::ranges::any_of(points.points, &PlanPoints::Point::simulated);
  double memory = limit, least = 0, most = 0;
  bool first = true;
  for (const PlanPoints::Point& point : points.points) {
    if (any && !point.simulated) continue;
    memory = std::max(memory, std::min(point.memory, 3 * limit));
    least = first ? point.tokens : std::min(least, point.tokens);
    most = std::max(most, point.tokens);
    first = false;
  }
  const double room = most > least ? 0.08 * (most - least) : 0.1 * most;
  points.most_memory = memory * 1.06;
  points.least_tokens = std::max(0.0, least - room);
  points.most_tokens = most > 0 ? most + room : 1;
}

}  // namespace

PlanPoints points_of(const std::vector<PlanRow>& rows, const std::vector<std::uint32_t>& visible,
                     Bytes limit) {
  PlanPoints result;
  for (const bool simulated : {false, true}) {
    // Best first is drawn last, on top.
    for (auto row = visible.rbegin(); row != visible.rend(); ++row) {
      const PlanRow& plan = rows[*row];
      if (plan.simulated != simulated || plan.tokens_per_s <= 0) continue;
      const PlanPoints::Point point{static_cast<double>(plan.needed.value()) / kBytesOfGiB,
                                    plan.tokens_per_s, *row, plan.fate, plan.simulated};
      result.points.push_back(point);
      if (plan.on_front) result.front.push_back(point);
    }
  }
  std::ranges::sort(result.front, {}, &PlanPoints::Point::memory);
  find_extent(result, static_cast<double>(limit.value()) / kBytesOfGiB);
  return result;
}

std::optional<std::uint32_t> nearest_row(const PlanPoints& points, const Scale& x, const Scale& y,
                                         double at_x, double at_y, double most) {
  double best = most * most;
  std::optional<std::uint32_t> found;
  for (const PlanPoints::Point& point : points.points) {
    const double dx = x.pixel_of(point.memory) - at_x, dy = y.pixel_of(point.tokens) - at_y;
    const double distance = dx * dx + dy * dy;
    if (distance > best) continue;
    best = distance;
    found = point.row;
  }
  return found;
}

}  // namespace meshwright
