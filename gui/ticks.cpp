#include "gui/ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "costmodel/base/units.h"

namespace meshwright {
namespace {

struct TimeUnit {
  double nanoseconds;
  const char* name;
};
constexpr TimeUnit kTimeUnits[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};

double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    // What rounding made of a power of ten must still count as one.
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

Ticks round_ticks(double from, double to, std::size_t most) {
  if (!(to > from) || most == 0 || !std::isfinite(to - from)) return {from, 1, 0};
  Ticks ticks;
  ticks.step = round_step((to - from) / static_cast<double>(most));
  ticks.first = std::ceil(from / ticks.step - 1e-9) * ticks.step;
  const double room = std::floor((to - ticks.first) / ticks.step + 1e-9);
  ticks.count = room < 0 ? 0 : std::min(static_cast<std::size_t>(room) + 1, most + 1);
  return ticks;
}

std::string moment_text(std::int64_t nanoseconds, double step) {
  const auto time = static_cast<double>(nanoseconds);
  const double size = std::max(std::abs(time), step);
  const TimeUnit* unit = &kTimeUnits[3];
  for (const TimeUnit& one : kTimeUnits) {
    if (size < one.nanoseconds) continue;
    unit = &one;
    break;
  }
  const double apart = std::max(step, 1.0) / unit->nanoseconds;
  const int digits = std::clamp(static_cast<int>(std::ceil(-std::log10(apart) - 1e-9)), 0, 9);
  return fmt::format("{:.{}f} {}", time / unit->nanoseconds, digits, unit->name);
}

std::string duration_text(std::int64_t nanoseconds) {
  return to_text(Seconds(static_cast<double>(nanoseconds) / 1e9));
}

}  // namespace meshwright
