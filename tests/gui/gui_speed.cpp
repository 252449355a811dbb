// What drawing and filtering take: CPU time of this thread, the median of some frames.
#include <fmt/format.h>

#include <QImage>
#include <algorithm>
#include <ctime>
#include <functional>
#include <random>
#include <vector>

#include "gui/lane_painter.h"
#include "gui/plan_filter.h"
#include "gui/plan_points.h"
#include "gui/timeline_lanes.h"

namespace meshwright {
namespace {

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double median_ms(const std::function<void()>& work, int times = 21) {
  std::vector<double> taken;
  for (int i = 0; i < times; ++i) {
    const double start = cpu_seconds();
    work();
    taken.push_back(1e3 * (cpu_seconds() - start));
  }
  std::ranges::nth_element(taken, taken.begin() + times / 2);
  return taken[static_cast<std::size_t>(times / 2)];
}

// 64 devices with three lanes each.
TimelineLanes made_up(std::size_t tasks) {
  std::mt19937_64 numbers(1);
  std::uniform_int_distribution<std::int64_t> length(500, 40'000);
  TimelineLanes lanes;
  const std::size_t devices = 64, of_each = 3, of_lane = tasks / devices / of_each;
  for (std::size_t d = 0; d < devices; ++d) {
    lanes.devices.push_back({fmt::format("device {}", d), 1, 0, lanes.lanes.size(), of_each});
    for (std::size_t l = 0; l < of_each; ++l) {
      TimelineLane lane{
          .name = "lane", .device = d, .computes = l == 0, .tasks = {}, .pyramid = {}};
      std::int64_t time = 0;
      for (std::uint32_t i = 0; i < of_lane; ++i) {
        const std::int64_t finish = time + length(numbers);
        lane.tasks.push_back({time, finish, i, static_cast<std::int16_t>(i % 64),
                              static_cast<Hue>(l == 0 ? i % 4 : 4 + i % 4)});
        time = finish + (l == 0 ? 0 : length(numbers));
      }
      lanes.end = std::max(lanes.end, time);
      lanes.task_count += of_lane;
      lanes.lanes.push_back(std::move(lane));
    }
  }
  lanes.step = lanes.end;
  return lanes;
}

void time_timeline(std::size_t tasks) {
  TimelineLanes lanes = made_up(tasks);
  const double build = median_ms(
      [&] {
        for (TimelineLane& lane : lanes.lanes) lane.pyramid = LanePyramid(lane.tasks, lanes.end);
      },
      3);
  std::size_t bytes = 0;
  for (const TimelineLane& lane : lanes.lanes) {
    bytes += lane.pyramid.bytes() + lane.tasks.size() * sizeof(TimedTask);
  }
  fmt::print("{} tasks: levels built in {:.0f} ms, {:.1f} bytes a task\n", lanes.task_count, build,
             static_cast<double>(bytes) / static_cast<double>(lanes.task_count));
  QImage image(1800, 1000, QImage::Format_RGB32);
  for (const int size : {16, 4}) {
    const LaneLayout layout = lay_out_lanes(lanes, size, {});
    for (const double share : {1.0, 0.1, 0.01, 0.001}) {
      const TimeAxis axis{lanes.end / 3,
                          static_cast<std::int64_t>(share * static_cast<double>(lanes.end) * 0.6)};
      const double frame = median_ms([&] {
        paint_lanes(image, {lanes, layout, axis, theme(false), 0});
      });
      fmt::print("  lanes of {:2} pixels, {:5.1f} % of the step: {:.2f} ms a frame\n", size,
                 60 * share, frame);
    }
  }
  std::size_t found = 0;
  const double hits = median_ms([&] {
    for (std::int64_t i = 0; i < 100'000; ++i) {
      const auto& lane = lanes.lanes[static_cast<std::size_t>(i) % lanes.lanes.size()];
      found += task_at(lane, i * 7919 % lanes.end).value_or(0);
    }
  });
  fmt::print("  a hit test: {:.3f} us ({})\n", hits * 1e3 / 100'000, found % 10);
}

void time_plans(std::size_t count) {
  std::mt19937_64 numbers(2);
  std::uniform_real_distribution<double> share(0, 1);
  std::vector<PlanRow> rows(count);
  for (PlanRow& row : rows) {
    row.simulated = share(numbers) < 0.1;
    row.fate = row.simulated ? Fate::Simulated : Fate::PrunedByBound;
    row.step = Seconds(share(numbers));
    row.needed = Bytes(static_cast<std::int64_t>(share(numbers) * 80e9));
    row.tokens_per_s = 1 / row.step.value();
    row.choices.tp = std::int64_t{1} << static_cast<int>(4 * share(numbers));
  }
  std::vector<std::uint32_t> visible;
  const auto time_filter = [&](const char* text) {
    const PlanFilter filter = parse_filter(text);
    const double taken = median_ms([&] { visible = visible_rows(rows, filter, {}, 80_GiB); });
    fmt::print("{} plans: filter \"{}\" and sort: {:.1f} ms, {} left\n", count, text, taken,
               visible.size());
  };
  time_filter("tp<=4 mem<40");
  time_filter("sched=1f1b");
  time_filter("");
  fmt::print("{} plans: points {:.1f} ms, nearest point {:.2f} ms\n", count,
             median_ms([&] { points_of(rows, visible, 80_GiB); }), [&] {
               const PlanPoints points = points_of(rows, visible, 80_GiB);
               return median_ms([&] {
                 nearest_row(points, {0, 80, 0, 600}, {0, 100, 400, 0}, 300, 200, 12);
               });
             }());
}

}  // namespace
}  // namespace meshwright

int main() {
  meshwright::time_timeline(1'000'000);
  meshwright::time_timeline(10'000'000);
  meshwright::time_plans(100'000);
}
