// What the desktop program takes: drawing and filtering (CPU time of this thread, the median of
// some frames), how long the window is busy at once while a search runs, and opening a large plan.
// gui_speed DATA [PART]: the folder of shipped data; lanes, plans, step or search, without it all.
#include <fmt/format.h>

#include <QApplication>
#include <QEventLoop>
#include <QImage>
#include <QKeyEvent>
#include <QPainter>
#include <QTimer>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

#include "gui/lane_painter.h"
#include "gui/main_window.h"
#include "gui/plan_filter.h"
#include "gui/plan_picture.h"
#include "gui/plan_points.h"
#include "gui/timeline_lanes.h"

namespace meshwright {
namespace {

double cpu_seconds(clockid_t clock = CLOCK_THREAD_CPUTIME_ID) {
  timespec now{};
  ::clock_gettime(clock, &now);
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
  time_filter("offload=none recompute=none place=in");
  time_filter("");
  fmt::print("{} plans: points {:.1f} ms, nearest point {:.2f} ms\n", count,
             median_ms([&] { points_of(rows, visible, 80_GiB); }), [&] {
               const PlanPoints points = points_of(rows, visible, 80_GiB);
               return median_ms([&] {
                 nearest_row(points, {0, 80, 0, 600}, {0, 100, 400, 0}, 300, 200, 12);
               });
             }());
}

// A frame with points that are all new; `simulated` of them are drawn as such.
void time_scatter(std::size_t count, double simulated) {
  std::mt19937_64 numbers(3);
  std::uniform_real_distribution<double> share(0, 1);
  PlanPoints points;
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool played = share(numbers) < simulated;
    const Fate fate = played ? share(numbers) < 0.5 ? Fate::Simulated : Fate::Close : Fate::Open;
    points.points.push_back({80 * share(numbers), 100 * share(numbers), i, fate, played});
  }
  QImage window(900, 500, QImage::Format_RGB32);
  const double frame = median_ms([&] {
    QImage picture(window.size(), QImage::Format_ARGB32_Premultiplied);
    picture.fill(Qt::transparent);
    paint_plans(picture, points, {0, 80, 64, 886}, {0, 100, 456, 12}, theme(false));
    QPainter(&window).drawImage(0, 0, picture);
  });
  fmt::print("{} plans: scatter {:.1f} ms a frame, {:.0f} % of them simulated\n", count, frame,
             100 * simulated);
}

// The most that this thread computes between two beats of a timer: so long nothing that a person
// does is answered.
class StallWatch {
 public:
  StallWatch() {
    QObject::connect(&beat_, &QTimer::timeout, [this] { look(); });
    beat_.start(1);
    start_over();
  }
  double cpu_ms() const { return 1e3 * cpu_; }
  double wall_ms() const { return 1e3 * wall_; }
  int beats() const { return beats_; }
  void start_over() {
    cpu_ = wall_ = beats_ = 0;
    cpu_from_ = cpu_seconds();
    wall_from_ = cpu_seconds(CLOCK_MONOTONIC);
  }

 private:
  void look() {
    ++beats_;
    const double cpu = cpu_seconds(), wall = cpu_seconds(CLOCK_MONOTONIC);
    cpu_ = std::max(cpu_, cpu - cpu_from_);
    wall_ = std::max(wall_, wall - wall_from_);
    cpu_from_ = cpu;
    wall_from_ = wall;
  }

  QTimer beat_;
  int beats_ = 0;
  double cpu_ = 0, wall_ = 0, cpu_from_ = 0, wall_from_ = 0;
};

void wait_for(GuiSession& session, const std::function<bool()>& done) {
  QEventLoop loop;
  QTimer timer;
  QObject::connect(&timer, &QTimer::timeout, &loop, [&] {
    if (done() || !session.problem().empty()) loop.quit();
  });
  timer.start(5);
  loop.exec();
  if (!session.problem().empty()) fmt::print("problem: {}\n", session.problem());
}

// A search with the whole window, which draws what comes; stopped if it takes long.
void time_live_search(const std::filesystem::path& data, const Inputs& inputs) {
  GuiSession session(data);
  MainWindow window(session);
  window.resize(1920, 1080);
  window.show();
  session.set_inputs(inputs);
  StallWatch watch;
  constexpr double kLongest = 20;
  const double start = cpu_seconds(CLOCK_MONOTONIC);
  session.start_search();
  wait_for(session, [&] {
    return !session.search().running || cpu_seconds(CLOCK_MONOTONIC) - start > kLongest;
  });
  if (session.search().running) {
    const double stop = cpu_seconds(CLOCK_MONOTONIC);
    session.stop_search();
    wait_for(session, [&] { return !session.search().running; });
    fmt::print("stopped after {:.0f} s, {:.0f} ms after it was asked to\n", kLongest,
               1e3 * (cpu_seconds(CLOCK_MONOTONIC) - stop));
  }
  fmt::print(
      "search of {} on {}: {} plans; the window computed for {:.1f} ms at most between two of {} "
      "beats ({:.0f} ms by the clock)\n",
      inputs.model, inputs.cluster, session.rows().size(), watch.cpu_ms(), watch.beats(),
      watch.wall_ms());
  watch.start_over();
  wait_for(session, [&] { return session.detail() != nullptr; });
  QCoreApplication::processEvents();
  wait_for(session, [&] { return session.idle(); });
  fmt::print("  its first plan shown: {:.1f} ms ({:.0f} ms by the clock)\n", watch.cpu_ms(),
             watch.wall_ms());
}

// The timeline with its memory below as the window has them, at any zoom.
void time_step_views(GuiSession& session, const MainWindow& window) {
  QWidget *timeline = window.view("timeline"), *memory = window.view("memory");
  timeline->resize(1800, 860);
  memory->resize(1800, 140);
  QImage image(1800, 1000, QImage::Format_RGB32);
  const TimeAxis whole = session.time();
  const auto worst_frame = [&](const char* lanes) {
    for (const double share : {1.0, 0.3, 0.1, 0.01, 0.001, 0.0001}) {
      const auto length = static_cast<std::int64_t>(share * static_cast<double>(whole.length));
      std::int64_t moved = 0;  // so that every frame is another
      const double frame = median_ms([&] {
        session.set_time({(whole.length - length) / 3 + ++moved * length / 2000, length});
        timeline->render(&image);
        memory->render(&image, {0, 860});
      });
      fmt::print("  timeline and memory, {}, {:7.2f} % of the step: {:.2f} ms a frame\n", lanes,
                 100 * share, frame);
    }
  };
  worst_frame("as it opens");
  for (int i = 0; i < 12; ++i) {
    QKeyEvent smaller(QEvent::KeyPress, Qt::Key_Minus, Qt::NoModifier);
    QApplication::sendEvent(timeline, &smaller);
  }
  worst_frame("low lanes");
}

// `first` is all that is needed to see it; prices of other choices come later.
void time_opening(const std::filesystem::path& data, const char* batch, const char* plan) {
  GuiSession session(data);
  MainWindow window(session);
  window.resize(1920, 1080);
  window.show();
  Inputs inputs;
  inputs.model = "llama3-405b";
  inputs.cluster = "h100:2048x8";
  inputs.global_batch = batch;
  inputs.sequence = "8k";
  session.set_inputs(inputs);
  const double start = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  StallWatch watch;
  session.try_plan(plan);
  wait_for(session, [&] { return session.detail() != nullptr; });
  window.grab();
  if (!session.detail()) return;
  fmt::print(
      "llama3-405b on 16,384 devices, batch {}: {:.2f} CPU-s until it is drawn, {} tasks; the "
      "window computed for {:.1f} ms at most\n",
      batch, cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - start, session.detail()->lanes.task_count,
      watch.cpu_ms());
  QWidget* placement = window.view("placement");
  placement->resize(1800, 1000);
  QImage image(placement->size(), QImage::Format_RGB32);
  fmt::print("  its placement in 1800 x 1000: {:.2f} ms a frame\n",
             median_ms([&] { placement->render(&image); }));
  time_step_views(session, window);
}

void time_lanes(const std::filesystem::path&) {
  time_timeline(1'000'000);
  time_timeline(10'000'000);
}

void time_tables(const std::filesystem::path&) {
  time_plans(100'000);
  time_scatter(100'000, 0.01);
  time_scatter(100'000, 1);
}

void time_steps(const std::filesystem::path& data) {
  for (const char* batch : {"2048", "24576", "245760"}) {
    time_opening(data, batch,
                 "tp=8,pp=16,dp=128,microbatch=1,zero=1,virtual_stages=1,schedule=1f1b");
  }
}

void time_searches(const std::filesystem::path& data) {
  Inputs inputs;
  inputs.model = "llama3-8b";
  inputs.cluster = "h100:4x8";
  inputs.global_batch = "256";
  inputs.sequence = "8k";
  time_live_search(data, inputs);
  inputs.model = "llama3-70b";
  inputs.cluster = "h100:8x8";
  inputs.global_batch = "512";
  time_live_search(data, inputs);
}

struct Part {
  std::string_view name;
  void (*time)(const std::filesystem::path& data);
};
constexpr Part kParts[] = {
    {"lanes", time_lanes}, {"plans", time_tables}, {"step", time_steps}, {"search", time_searches}};

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) {
  using namespace meshwright;
  const std::string_view wanted = argc == 3 ? argv[2] : "";
  const bool known = wanted.empty() || std::ranges::count(kParts, wanted, &Part::name) == 1;
  if (argc < 2 || argc > 3 || !known) {
    fmt::print(stderr, "usage: gui_speed DATA [lanes|plans|step|search]\n");
    return 2;
  }
  qputenv("QT_QPA_PLATFORM", "offscreen");
  const QApplication application(argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  for (const Part& part : kParts) {
    if (wanted.empty() || part.name == wanted) part.time(argv[1]);
  }
}
