#include <QPainter>
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "gui/lane_layout.h"
#include "gui/lane_pyramid.h"
#include "gui/legend.h"
#include "gui/memory_curve.h"
#include "gui/placement_grid.h"
#include "gui/point_painter.h"
#include "gui/ticks.h"
#include "gui/time_axis.h"
#include "gui/timeline_lanes.h"
#include "tests/gui/application.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

using Numbers = std::mt19937_64;

std::int64_t draw(Numbers& numbers, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(numbers);
}

// A lane's tasks: some take no time, some follow each other without a gap.
TimelineLane random_lane(Numbers& numbers, std::size_t count) {
  TimelineLane lane;
  std::int64_t time = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    time += draw(numbers, 0, 2) == 0 ? 0 : draw(numbers, 0, 1000);
    const std::int64_t finish = time + (draw(numbers, 0, 9) == 0 ? 0 : draw(numbers, 0, 2000));
    lane.tasks.push_back({time, finish, i, -1, static_cast<Hue>(draw(numbers, 0, 8))});
    time = finish;
  }
  return lane;
}

}  // namespace

TEST_CASE("marks of an axis stand at round numbers within it, and not too many") {
  const auto seed = GENERATE(1u, 2u, 3u);
  INFO("seed " << seed);
  Numbers numbers(seed);
  for (int i = 0; i < cases(500, 20'000); ++i) {
    const double from = static_cast<double>(draw(numbers, -1'000'000'000, 1'000'000'000));
    const double length = std::pow(10.0, static_cast<double>(draw(numbers, 0, 18)));
    const auto most = static_cast<std::size_t>(draw(numbers, 1, 20));
    const Ticks ticks = round_ticks(from, from + length, most);
    INFO(from << " " << length << " " << most);
    CHECK(ticks.count <= most + 1);
    const double mantissa = ticks.step / std::pow(10.0, std::floor(std::log10(ticks.step) + 1e-9));
    CHECK((mantissa == Approx(1) || mantissa == Approx(2) || mantissa == Approx(5)));
    for (std::size_t t = 0; t < ticks.count; ++t) {
      CHECK(ticks.at(t) >= from - length * 1e-6);
      CHECK(ticks.at(t) <= from + length * (1 + 1e-6));
    }
  }
}

TEST_CASE("moments that are a mark apart have different texts") {
  for (const double step : {1.0, 5.0, 200.0, 1e3, 2e5, 5e6, 1e8, 2e9}) {
    for (const std::int64_t start : {std::int64_t{0}, std::int64_t{1'234'567'890'123}}) {
      const auto by = static_cast<std::int64_t>(step);
      INFO(step << " from " << start);
      CHECK(moment_text(start + by, step) != moment_text(start, step));
    }
  }
  CHECK(moment_text(1'250'000, 50'000) == "1.25 ms");
  CHECK(moment_text(0, 1e6) == "0 ms");
}

TEST_CASE("a pixel stands for the time that stands at the pixel") {
  const auto seed = GENERATE(4u, 5u);
  INFO("seed " << seed);
  Numbers numbers(seed);
  for (int i = 0; i < cases(500, 20'000); ++i) {
    const TimeAxis axis{draw(numbers, 0, std::int64_t{1} << 61),
                        draw(numbers, 100, std::int64_t{1} << 40)};
    const double width = static_cast<double>(draw(numbers, 1, 4000));
    const double pixel = static_cast<double>(draw(numbers, 0, 4000)) / 4000 * width;
    const auto time = axis.time_at(pixel, width);
    const double back = axis.pixel_of(time, width);
    INFO(axis.start << " " << axis.length << " " << width << " " << pixel);
    // Half a nanosecond is lost by rounding.
    CHECK(std::abs(back - pixel) <= 0.5 * width / static_cast<double>(axis.length) + 1e-6);
  }
}

TEST_CASE(
    "zooming leaves the time under the pointer where it is, and nothing leads out of the step") {
  const std::int64_t end = 10'000'000;
  const TimeAxis axis{2'000'000, 4'000'000};
  const TimeAxis closer = zoomed(axis, 0.5, 0.25, end);
  CHECK(closer.length == 2'000'000);
  CHECK(closer.time_at(25, 100) == axis.time_at(25, 100));
  Numbers numbers(6);
  TimeAxis now{0, end};
  for (int i = 0; i < 2000; ++i) {
    const double share = static_cast<double>(draw(numbers, 0, 100)) / 100;
    now = draw(numbers, 0, 1) == 0 ? zoomed(now, draw(numbers, 0, 1) == 0 ? 0.7 : 1.5, share, end)
                                   : moved(now, share - 0.5, end);
    REQUIRE(now.start >= 0);
    REQUIRE(now.length >= 1);
    REQUIRE(now.start + now.length <= end);
  }
  for (int i = 0; i < 200; ++i) now = zoomed(now, 0.5, 0.5, end);
  CHECK(now.length == 20);
  for (int i = 0; i < 200; ++i) now = zoomed(now, 2, 0.5, end);
  CHECK(now == TimeAxis{0, end});
}

TEST_CASE("from afar a lane is as busy as its tasks are") {
  const auto seed = GENERATE(7u, 8u, 9u);
  INFO("seed " << seed);
  Numbers numbers(seed);
  for (int i = 0; i < cases(20, 300); ++i) {
    const TimelineLane lane = random_lane(numbers, static_cast<std::size_t>(draw(numbers, 1, 400)));
    const std::int64_t end = std::max<std::int64_t>(1, lane.tasks.back().finish);
    const LanePyramid pyramid(lane.tasks, end);
    const auto level = pyramid.level_for(static_cast<double>(end));
    REQUIRE(level);
    const double share = static_cast<double>(busy_in(lane, 0, end)) / static_cast<double>(end);
    const LaneBin bin = pyramid.look(*level, 0, static_cast<double>(end));
    // Each level rounds to 1 / 255, and what takes no time is drawn as the least there is.
    CHECK(bin.cover / 255.0 == Approx(share).margin(0.06));
    CHECK(bin.cover > 0);
  }
}

TEST_CASE("a task that is far shorter than a pixel is still seen") {
  std::vector<TimedTask> tasks = {{500'000, 500'001, 0, -1, Hue::PipelineTransfer}};
  for (std::uint32_t i = 1; i < 1000; ++i) {
    tasks.push_back({900'000 + i, 900'001 + i, i, -1, Hue::Forward});
  }
  const LanePyramid pyramid(tasks, 1'000'000);
  const auto level = pyramid.level_for(10'000);
  REQUIRE(level);
  const LaneBin bin = pyramid.look(*level, 495'000, 505'000);
  CHECK(bin.cover > 0);
  CHECK(static_cast<Hue>(bin.hue) == Hue::PipelineTransfer);
  CHECK(pyramid.look(*level, 100'000, 200'000) == LaneBin{});
  CHECK(pyramid.bytes() <= 8 * tasks.size());
}

TEST_CASE("the level of a lane has bins that are at most a pixel long, and hardly shorter") {
  Numbers numbers(10);
  const TimelineLane lane = random_lane(numbers, 1000);
  const std::int64_t end = lane.tasks.back().finish;
  const LanePyramid pyramid(lane.tasks, end);
  for (double pixel = static_cast<double>(end) / 900; pixel < static_cast<double>(end);
       pixel *= 1.37) {
    const auto level = pyramid.level_for(pixel);
    REQUIRE(level);
    CHECK(pyramid.bin_length(*level) <= pixel * (1 + 1e-6));
    CHECK(pyramid.bin_length(*level) * 2 > pixel * (1 - 1e-6));
  }
  CHECK_FALSE(pyramid.level_for(static_cast<double>(end) / 5000));
}

TEST_CASE("the task at a moment is the one that a look at all of them finds") {
  Numbers numbers(11);
  for (int i = 0; i < cases(30, 500); ++i) {
    const TimelineLane lane = random_lane(numbers, static_cast<std::size_t>(draw(numbers, 1, 100)));
    const std::int64_t end = lane.tasks.back().finish;
    for (int j = 0; j < 50; ++j) {
      const std::int64_t time = draw(numbers, 0, end + 10);
      std::optional<std::size_t> found;
      for (std::size_t t = 0; t < lane.tasks.size(); ++t) {
        if (lane.tasks[t].start <= time && time < lane.tasks[t].finish) found = t;
      }
      INFO("time " << time);
      CHECK(task_at(lane, time) == found);
    }
  }
}

TEST_CASE("lanes stand below each other, and a height finds the lane that is drawn there") {
  TimelineLanes lanes;
  for (std::size_t d = 0; d < 5; ++d) {
    lanes.devices.push_back({"device", 1, 0, lanes.lanes.size(), d + 1});
    for (std::size_t l = 0; l <= d; ++l) lanes.lanes.push_back({"lane", d, l == 0, {}, {}});
  }
  for (const int size : {2, 4, 5, 6, 16, 40}) {
    const LaneLayout layout = lay_out_lanes(lanes, size, {});
    CHECK(layout.device_tops.size() == 5);
    for (std::size_t i = 0; i < layout.lanes.size(); ++i) {
      const LanePlace& place = layout.lanes[i];
      if (i > 0) CHECK(place.top >= layout.lanes[i - 1].top + layout.lanes[i - 1].height);
      CHECK(place.top + place.height <= layout.height);
      for (int y = place.top; y < place.top + place.height; ++y) {
        CHECK(lane_at(layout, y) == place.lane);
      }
    }
    CHECK_FALSE(lane_at(layout, layout.height));
    CHECK_FALSE(lane_at(layout, -1));
  }
  // Too thin to be told apart: only what computes.
  CHECK(lay_out_lanes(lanes, 4, {}).lanes.size() == 5);
  CHECK(lay_out_lanes(lanes, 16, {std::vector<bool>(5, true), {}}).lanes.size() == 5);
}

TEST_CASE("a device that is folded shows what it computes, one that is expanded all its equals") {
  TimelineLanes lanes;
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t count = d == 0 ? 1 : d == 1 ? 4 : 1000;
    lanes.devices.push_back({"device " + std::to_string(d), count, 0, lanes.lanes.size(), 2, {}});
    lanes.lanes.push_back({"compute", d, true, {}, {}});
    lanes.lanes.push_back({"group", d, false, {}, {}});
  }
  lanes.devices[1].members = {1, 5, 6, 7};
  const auto names = [&](const LaneFolds& folds) {
    std::vector<std::string> texts;
    for (const LanePlace& place : lay_out_lanes(lanes, 16, folds).lanes) {
      texts.push_back(name_beside(lanes, place));
    }
    return texts;
  };
  CHECK(names({}) == std::vector<std::string>{"device 0", "group", "device 1  \u00d74", "group",
                                              "device 2  \u00d71000", "group"});
  CHECK(names({{false, true}, {false, true}}) ==
        std::vector<std::string>{"device 0", "group", "device 1  \u00d74", "device 5", "device 6",
                                 "device 7", "device 2  \u00d71000", "group"});
  // As many as one can look at, and how many are left; whose numbers are not known are named so.
  const auto many = names({{true, true, true}, {false, false, true}});
  REQUIRE(many.size() == 2 + kMostMembers);
  CHECK(many[3] == "as device 2");
  CHECK(many.back() == "and 937 more");
  // Nobody equals the first device.
  CHECK(names({{}, {true}}) == names({}));
}

TEST_CASE("tasks of a micro-batch are one run as long as nothing comes between") {
  const auto seed = GENERATE(1u, 2u);
  INFO("seed " << seed);
  Numbers numbers(seed);
  for (int i = 0; i < cases(50, 2'000); ++i) {
    TimelineLane lane;
    std::int64_t time = 0;
    for (auto left = draw(numbers, 0, 60); left > 0; --left) {
      const std::int64_t start = time + draw(numbers, 0, 1000);
      time = start + draw(numbers, 1, 2000);
      lane.tasks.push_back({start, time, 0, static_cast<std::int16_t>(draw(numbers, -1, 1)),
                            static_cast<Hue>(draw(numbers, 0, 3))});
    }
    const std::int64_t most_gap = draw(numbers, 0, 900);
    const auto runs = runs_of(lane.tasks, most_gap);
    std::size_t next = 0;
    for (const TimedTask& task : lane.tasks) {
      if (task.microbatch < 0) continue;
      while (next < runs.size() && runs[next].finish < task.finish) ++next;
      REQUIRE(next < runs.size());
      CHECK(runs[next].start <= task.start);
      CHECK(runs[next].microbatch == task.microbatch);
      CHECK((runs[next].hue == Hue::Forward) == (task.hue == Hue::Forward));
    }
    for (std::size_t r = 1; r < runs.size(); ++r) CHECK(runs[r].start >= runs[r - 1].finish);
  }
  const std::vector<TimedTask> tasks = {
      {0, 10, 0, 3, Hue::Forward},        {12, 20, 1, 3, Hue::Forward},
      {20, 30, 2, 3, Hue::InputGradient}, {30, 40, 3, 3, Hue::WeightGradient},
      {90, 95, 4, 3, Hue::Recompute},     {95, 99, 5, -1, Hue::Optimizer}};
  CHECK(runs_of(tasks, 5) == std::vector<LaneRun>{{0, 20, 3, Hue::Forward},
                                                  {20, 40, 3, Hue::InputGradient},
                                                  {90, 95, 3, Hue::Recompute}});
}

TEST_CASE("lanes that are pinned stand in their order, and those that are not there do not") {
  TimelineLanes lanes;
  lanes.devices = {{"device 0", 1, 0, 0, 2, {}}, {"device 3", 1, 0, 2, 1, {}}};
  lanes.lanes = {
      {"compute", 0, true, {}, {}}, {"group", 0, false, {}, {}}, {"compute", 1, true, {}, {}}};
  const LaneLayout layout =
      lay_out_pinned(lanes, 20, {"device 3, compute", "device 9, compute", "device 0, group"});
  REQUIRE(layout.lanes.size() == 2);
  CHECK(layout.lanes[0].lane == 2);
  CHECK(layout.lanes[1].lane == 1);
  CHECK(layout.lanes[1].top >= layout.lanes[0].top + layout.lanes[0].height);
  CHECK(lay_out_pinned(lanes, 20, {}).height == 0);
}

TEST_CASE("small pictures that are set from the top down look as the painter draws them upwards") {
  Numbers numbers(21);
  QImage small(9, 9, QImage::Format_ARGB32_Premultiplied);
  small.fill(Qt::transparent);
  QPainter painter(&small);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setBrush(QColor(20, 90, 200));
  painter.drawEllipse(QPointF(4.5, 4.5), 3.5, 3.5);
  painter.end();
  QImage own(200, 120, QImage::Format_ARGB32_Premultiplied), drawn = own;
  own.fill(Qt::transparent);
  drawn.fill(Qt::transparent);
  std::vector<QPoint> places;
  for (int i = 0; i < 500; ++i) {
    places.emplace_back(static_cast<int>(draw(numbers, 10, 189)),
                        static_cast<int>(draw(numbers, 10, 109)));
  }
  QPainter onto(&drawn);
  for (const QPoint& place : places) onto.drawImage(place - QPoint(4, 4), small);
  onto.end();
  const Sprite sprite(small);
  SpriteCanvas canvas(own);
  for (auto place = places.rbegin(); place != places.rend(); ++place) {
    canvas.set_below(sprite, place->x(), place->y());
  }
  // Beyond the edges nothing is set, and nothing is read.
  for (const int away : {-1000, -1, 0, 1000}) canvas.set_below(sprite, away, away);
  for (int y = 0; y < own.height(); ++y) {
    for (int x = 0; x < own.width(); ++x) {
      const QRgb a = own.pixel(x, y), b = drawn.pixel(x, y);
      const bool same = std::abs(qRed(a) - qRed(b)) <= 4 && std::abs(qGreen(a) - qGreen(b)) <= 4 &&
                        std::abs(qBlue(a) - qBlue(b)) <= 4 && std::abs(qAlpha(a) - qAlpha(b)) <= 4;
      if (!same) FAIL("pixel " << x << " " << y);
    }
  }
}

TEST_CASE("squares that are enlarged keep their places among each other") {
  for (const std::int64_t nodes : {1, 7, 300, 2048}) {
    const GridLayout layout = lay_out_grid(nodes, 8, 400, 600);
    for (const double factor : {1.0, 1.3, 4.0, 64.0}) {
      const GridLayout larger = enlarged(layout, factor);
      CHECK(larger.columns == layout.columns);
      CHECK(larger.cell >= layout.cell);
      CHECK(larger.width() >= larger.columns * 8 * larger.cell);
      CHECK(larger.height() >=
            larger.cell * static_cast<int>((nodes + larger.columns - 1) / larger.columns));
    }
    CHECK(enlarged(layout, 1).cell == layout.cell);
  }
  CHECK(enlarged(lay_out_grid(2048, 8, 400, 600), 64).cell >= 24);
}

TEST_CASE("the fullest moment of any stretch is what a look at every sample finds") {
  Numbers numbers(12);
  for (int i = 0; i < cases(20, 200); ++i) {
    std::vector<MemorySample> samples;
    double time = 0;
    for (std::int64_t s = draw(numbers, 1, 1000); s > 0; --s) {
      MemorySample sample{.time = Seconds(time), .bytes = {}};
      sample.bytes[0] = Bytes(draw(numbers, 0, 1000));
      sample.bytes[3] = Bytes(draw(numbers, 0, 1000));
      samples.push_back(sample);
      time += 1e-3 * static_cast<double>(draw(numbers, 1, 10));
    }
    const MemoryCurve curve(samples);
    for (int j = 0; j < 50; ++j) {
      const double from = time * static_cast<double>(draw(numbers, 0, 1000)) / 1000;
      const double to = from + time * static_cast<double>(draw(numbers, 0, 1000)) / 1000;
      Bytes most;
      for (std::size_t s = 0; s < samples.size(); ++s) {
        const bool ends_before = s + 1 < samples.size() && samples[s + 1].time.value() <= from;
        if (ends_before || samples[s].time.value() > to) continue;
        most = std::max(most, total(samples[s].bytes));
      }
      INFO(from << " to " << to);
      CHECK(total(curve.fullest(from, to).bytes) == most);
    }
    // One stretch after the other, as columns of pixels are.
    const auto columns = draw(numbers, 1, 2000);
    std::vector<double> edges;
    for (std::int64_t x = 0; x <= columns; ++x) {
      edges.push_back(time * static_cast<double>(x) / static_cast<double>(columns));
    }
    const auto along = curve.fullest_along(edges);
    REQUIRE(along.size() + 1 == edges.size());
    for (std::size_t x = 0; x < along.size(); ++x) {
      CHECK(along[x] == &curve.fullest(edges[x], edges[x + 1]));
    }
  }
}

TEST_CASE("a legend has all its entries beside and below each other, however narrow it is") {
  application();
  const QFontMetrics metrics{QFont()};
  Numbers numbers(31);
  for (int i = 0; i < cases(200, 2000); ++i) {
    QStringList names;
    for (std::int64_t n = draw(numbers, 1, 12); n > 0; --n) {
      names += QString(static_cast<qsizetype>(draw(numbers, 1, 20)), 'w');
    }
    const auto left = static_cast<int>(draw(numbers, 0, 200));
    const auto width = static_cast<int>(draw(numbers, 1, 2000));
    const auto wrapped = static_cast<int>(draw(numbers, 0, left));
    const Legend legend(names, metrics, left, wrapped, width);
    REQUIRE(legend.size() == static_cast<std::size_t>(names.size()));
    for (std::size_t a = 0; a < legend.size(); ++a) {
      const QRect mark = legend.mark(a, 5), name = legend.name(a, 5);
      INFO("entry " << a << " in " << width);
      CHECK(name.width() >= metrics.horizontalAdvance(names[static_cast<qsizetype>(a)]));
      CHECK(mark.right() < name.left());
      CHECK(name.bottom() < 5 + legend.height());
      // An entry that is wider than all there is has a line of its own.
      const bool first = a == 0 || legend.mark(a - 1, 5).top() < mark.top();
      CHECK((first || name.right() < width));
      if (!first) CHECK(legend.name(a - 1, 5).right() < mark.left());
    }
  }
}

}  // namespace meshwright
