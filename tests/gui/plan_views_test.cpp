#include <QTest>
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "gui/compare_view.h"
#include "gui/graph_rows.h"
#include "gui/history.h"
#include "gui/palette.h"
#include "gui/placement_grid.h"
#include "gui/plan_points.h"
#include "gui/save_actions.h"
#include "gui/session_file.h"
#include "gui/space_view.h"
#include "simulator/plan/plan_file.h"
#include "tests/bad_files.h"
#include "tests/gui/application.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

std::vector<PlanRow> drawn_rows(std::uint32_t seed, std::size_t count) {
  std::mt19937 numbers(seed);
  std::uniform_real_distribution<double> share(0, 1);
  std::vector<PlanRow> rows;
  for (std::size_t i = 0; i < count; ++i) {
    PlanRow row{.simulated = share(numbers) < 0.5};
    row.fate = row.simulated ? Fate::Simulated : Fate::PrunedByBound;
    row.step = Seconds(0.1 + share(numbers));
    row.needed = Bytes(static_cast<std::int64_t>(share(numbers) * 80e9));
    row.tokens_per_s = 1000 / row.step.value();
    rows.push_back(row);
  }
  mark_front(rows);
  return rows;
}

std::vector<std::uint32_t> all_of(const std::vector<PlanRow>& rows) {
  return visible_rows(rows, {}, {}, 80_GiB);
}

}  // namespace

TEST_CASE("the point under the pointer is the nearest one, and only near") {
  const auto seed = GENERATE(1u, 2u);
  INFO("seed " << seed);
  const auto rows = drawn_rows(seed, static_cast<std::size_t>(cases(200, 5000)));
  const PlanPoints points = points_of(rows, all_of(rows), 80_GiB);
  CHECK(points.points.size() == rows.size());
  const Scale x{0, points.most_memory, 60, 600},
      y{points.least_tokens, points.most_tokens, 400, 10};
  for (const PlanPoints::Point& point : points.points) {
    const auto found =
        nearest_row(points, x, y, x.pixel_of(point.memory), y.pixel_of(point.tokens), 12);
    REQUIRE(found);
    // Another may stand at the very same place.
    CHECK(rows[*found].needed == rows[point.row].needed);
    CHECK(rows[*found].step == rows[point.row].step);
  }
  CHECK_FALSE(nearest_row(points, x, y, -500, -500, 12));
  CHECK(std::ranges::is_sorted(points.front, {}, &PlanPoints::Point::memory));
  CHECK(std::ranges::is_sorted(points.front, {}, &PlanPoints::Point::tokens));
}

TEST_CASE("a scale gives back the value of a pixel, whichever way it runs") {
  for (const Scale& scale : {Scale{0, 10, 5, 505}, Scale{100, 300, 400, 10}, Scale{-5, 5, 0, 1}}) {
    for (double share = 0; share <= 1; share += 0.1) {
      const double value = scale.from + share * (scale.to - scale.from);
      CHECK(scale.value_at(scale.pixel_of(value)) == Approx(value).margin(1e-9));
    }
  }
  CHECK(Scale{3, 3, 0, 100}.pixel_of(3) == 0);
}

TEST_CASE("a brush replaces the terms of its keys and keeps all others") {
  const PlanFilter filter = parse_filter("tp<=4 needs<70 sched=1f1b");
  const std::string text = filter_with(filter, {"needs"}, {{"needs", Comparison::Greater, "10"}});
  CHECK(text == "tp<=4 schedule=1f1b needs>10");
  CHECK(filter_with(filter, {"needs", "tp", "schedule"}, {}) == "");
}

TEST_CASE("bars of a waterfall lead from the first step to the second without a gap") {
  application();
  GuiSession session(shipped_data());
  session.set_inputs(small_question());
  session.try_plan("dp=8,microbatch=2");
  session.try_plan("dp=2,tp=2,pp=2,microbatch=2");
  session.try_plan("dp=4,tp=2,zero=1");
  REQUIRE(settles(session));
  REQUIRE(session.rows().size() == 3);
  for (const std::uint32_t row : session.visible()) session.toggle_mark(row);
  REQUIRE(settles(session));
  REQUIRE(session.compared().size() == 3);
  for (const auto& first : session.compared()) {
    for (const auto& second : session.compared()) {
      const auto bars = waterfall(first->step, second->step);
      CHECK(bars.front().to == first->step.step);
      CHECK(bars.back().to == second->step.step);
      double level = first->step.step.value();
      for (std::size_t i = 1; i + 1 < bars.size(); ++i) {
        CHECK(bars[i].from.value() == Approx(level));
        level = bars[i].to.value();
      }
      CHECK(level == Approx(second->step.step.value()).epsilon(1e-6));
    }
  }
  // A mark is taken away by marking again, and by undoing.
  session.toggle_mark(session.marked().front());
  CHECK(session.marked().size() == 2);
  session.undo();
  REQUIRE(settles(session));
  CHECK(session.compared().size() == session.marked().size());
}

TEST_CASE("squares of devices do not overlap and fit where there is room for them") {
  for (const std::int64_t nodes : {1, 2, 7, 64, 2048}) {
    for (const std::int64_t inside : {1, 4, 8, 72}) {
      for (const int width : {200, 400, 1600}) {
        const GridLayout layout = lay_out_grid(nodes, inside, width, 600);
        INFO(nodes << " nodes of " << inside << " in " << width);
        CHECK(layout.columns * layout.node_width() <= std::max(width, layout.node_width()));
        const std::int64_t lines = (nodes + layout.columns - 1) / layout.columns;
        if (layout.cell > 1) CHECK(lines * layout.node_height() <= 600);
        CHECK(layout.cell * inside <= layout.node_width());
      }
    }
  }
}

TEST_CASE(
    "every device of the cluster has its place in the plan, and what the plan leaves is idle") {
  application();
  GuiSession session(shipped_data());
  Inputs inputs = small_question();
  inputs.cluster = "h100:2x8";
  session.set_inputs(inputs);
  session.try_plan("dp=3,tp=2,pp=2");
  session.try_plan("dp=2,tp=2,pp=2,microbatch=2");
  REQUIRE(settles(session));
  REQUIRE(session.detail());
  const PlanDetail& detail = *session.detail();
  const PlacementMap map =
      placement_of(detail.plan, detail.prediction.represented, detail.asked->setting->cluster);
  REQUIRE(map.devices.size() == 16);
  CHECK(map.first_of_node == std::vector<std::int64_t>{0, 8});
  std::set<std::pair<std::size_t, std::vector<std::int64_t>>> places;
  for (std::size_t i = 0; i < map.devices.size(); ++i) {
    for (const std::string& by : shades_of(map)) {
      const auto shade = shade_of(map, detail.prediction.report, i, by);
      CHECK(shade.has_value() == map.devices[i].used);
      if (shade) CHECK((*shade >= 0 && *shade <= 1));
    }
    if (map.devices[i].used) places.insert({map.devices[i].slot, map.devices[i].coordinates});
  }
  CHECK(places.size() == 8);
}

TEST_CASE("devices can be coloured by every degree of a plan, and stand in it as often") {
  application();
  GuiSession session(shipped_data());
  Inputs inputs = small_question();
  inputs.cluster = "h100:2x8";
  const struct {
    const char *model, *plan;
    std::vector<PlacementDegree> degrees;
  } cases[] = {
      {"gpt2-tiny", "dp=2,tp=2,pp=2,microbatch=2", {{"dp", 2}, {"tp", 2}}},
      {"gpt2-tiny", "dp=2,tp=2,cp=4,context=ring", {{"cp", 4}, {"dp", 2}, {"tp", 2}}},
      {"gpt2-tiny", "dp=2,cp=4,context=ring,ulysses=2", {{"cp", 4}, {"dp", 2}}},
      {"gpt2-tiny", "dp=2,tp=4,tensor=2d,microbatch=4", {{"dp", 2}, {"tp", 4}}},
      {"mixtral-8x7b", "dp=4,tp=2,ep=4", {{"dp", 4}, {"ep", 4}, {"tp", 2}}},
  };
  for (const auto& one : cases) {
    INFO(one.plan);
    inputs.model = one.model;
    session.set_inputs(inputs);
    session.try_plan(one.plan);
    REQUIRE(settles(session));
    REQUIRE(session.problem() == "");
    const PlanDetail& detail = *session.detail();
    const PlacementMap map =
        placement_of(detail.plan, detail.prediction.represented, detail.asked->setting->cluster);
    CHECK(map.degrees == one.degrees);
    for (std::size_t i = 0; i < map.degrees.size(); ++i) {
      std::map<std::int64_t, std::size_t> counts;
      for (const PlacedDevice& device : map.devices) {
        if (device.used) ++counts[device.coordinates[i]];
      }
      CHECK(static_cast<std::int64_t>(counts.size()) == map.degrees[i].size);
      for (const auto& [at, count] : counts) CHECK(count == counts.begin()->second);
    }
  }
}

TEST_CASE("the graph has every op of the model once, and says what is recomputed and cut") {
  application();
  GuiSession session(shipped_data());
  session.set_inputs(small_question());
  session.try_plan("dp=2,tp=4,recompute=full");
  REQUIRE(settles(session));
  REQUIRE(session.detail());
  const PlanDetail& detail = *session.detail();
  const Model& model = detail.asked->setting->model;
  const auto rows = graph_rows(model, detail.plan, detail.prediction.represented.programs);
  std::size_t ops = 0;
  for (const Block& block : model.blocks) ops += 1 + block.ops.size();
  CHECK(rows.size() == ops);
  std::size_t recomputed = 0, cut = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const std::size_t input : rows[i].inputs) CHECK(input < i);
    recomputed += rows[i].recomputed ? 1 : 0;
    cut += rows[i].weight.find("/tp") != std::string::npos ? 1 : 0;
  }
  CHECK(recomputed > 0);
  CHECK(cut > 0);
  const auto plain = graph_rows(model, detail.plan, {});
  CHECK(std::ranges::none_of(plain, &GraphRow::recomputed));
}

TEST_CASE("undoing goes back change by change, and a burst of changes is one") {
  using Numbers = History<int>;
  const Numbers::Time start{};
  const auto later = [&](int milliseconds) {
    return start + std::chrono::milliseconds(milliseconds);
  };
  Numbers history(0);
  history.record(1, later(0));
  history.record(2, later(1000));
  history.record(3, later(1100));
  history.record(4, later(1200));
  REQUIRE(history.undo());
  CHECK(*history.redo() == 4);
  CHECK(*history.undo() == 1);
  CHECK(*history.undo() == 0);
  CHECK(history.undo() == nullptr);
  CHECK(*history.redo() == 1);
  history.record(9, later(5000));
  CHECK(history.redo() == nullptr);
  CHECK(*history.undo() == 1);
}

TEST_CASE("filters, inputs and zoom can be undone and redone") {
  application();
  GuiSession session(shipped_data());
  const Inputs before = session.inputs();
  Inputs inputs = before;
  inputs.model = "llama3-8b";
  session.set_inputs(inputs);
  CHECK(session.inputs().model == "llama3-8b");
  session.undo();
  CHECK(session.inputs() == before);
  session.redo();
  CHECK(session.inputs() == inputs);
}

TEST_CASE("what is undone after another plan is shown stays within its step") {
  application();
  GuiSession session(shipped_data());
  constexpr int kBetweenBursts = 400;  // milliseconds
  session.set_inputs(small_question());
  QTest::qWait(kBetweenBursts);
  session.set_filter("tp<=2");
  session.try_plan("pp=2,microbatch=1");
  REQUIRE(settles(session));
  const TimeAxis whole = session.whole_time(), late{whole.length - 1000, 1000};
  QTest::qWait(kBetweenBursts);
  session.set_time(late);
  // Before any plan was there all of it was looked at, which is no stretch of time.
  session.undo();
  CHECK(session.time() == whole);
  CHECK(session.filter_text() == "tp<=2");
  session.undo();
  CHECK(session.time() == whole);
  CHECK(session.filter_text() == "");
  session.redo();
  session.redo();
  CHECK(session.time() == late);
  session.try_plan("dp=8");
  REQUIRE(settles(session));
  REQUIRE(session.whole_time().length < whole.length);
  session.undo();
  CHECK(session.time() == session.whole_time());
  session.redo();
  CHECK(session.time() == TimeAxis{session.whole_time().length - 1000, 1000});
}

TEST_CASE("a saved session is read back as it was, and a bad one is refused by name") {
  SavedSession session;
  session.inputs.model = "llama3-8b";
  session.inputs.pins = "tp=8";
  session.inputs.allow_close = true;
  session.filter = "tp<=4";
  session.theme = ThemeChoice::Dark;
  session.geometry = "AdnQ";
  const std::string text = session_text(session);
  CHECK(read_session(JsonInput::parse(text, "session.json")) == session);
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    CHECK_THROWS_WITH(read_session(JsonInput::parse(changed, "session.json")),
                      Catch::Contains("session.json"));
  };
  refused("\"version\": 1", "\"version\": 2");
  refused("meshwright-session", "meshwright-plan");
  const auto older = replaced(text, "\"theme\": \"dark\"", "\"dark\": true");
  CHECK(read_session(JsonInput::parse(older, "session.json")) == session);
  refused("\"theme\": \"dark\"", "\"theme\": \"grey\"");
  refused("\"theme\": \"dark\"", "\"dark\": 3");
  refused("\"filter\"", "\"filler\"");
  refused("\"pin\"", "\"pins\"");
}

TEST_CASE("letters find a command in their order, and those close together first") {
  CHECK(fuzzy_distance("", "Search") == 0);
  CHECK(fuzzy_distance("SRCH", "Search").has_value());
  CHECK_FALSE(fuzzy_distance("hcr", "Search"));
  CHECK_FALSE(fuzzy_distance("searchx", "Search"));
  CHECK(*fuzzy_distance("sav", "Save the plan") < *fuzzy_distance("sav", "Search and move"));
}

TEST_CASE("what is saved can be read again: the plan, the step, the table") {
  application();
  GuiSession session(shipped_data());
  session.set_inputs(small_question());
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "file").string();
  CHECK_THROWS_AS(save_plan(session, file), UsageError);
  CHECK_THROWS_AS(save_trace(session, file), UsageError);
  CHECK_THROWS_AS(save_table(session, file), UsageError);
  CHECK_FALSE(std::filesystem::exists(file));
  session.try_plan("dp=4,tp=2,microbatch=2");
  REQUIRE(settles(session));
  const PlanDetail& detail = *session.detail();
  save_plan(session, file);
  CHECK(read_plan(JsonInput::read(file), detail.asked->setting->graph.dims) == detail.plan);
  save_trace(session, file);
  const Prediction& played = detail.prediction;
  CHECK(read_trace(JsonInput::read(file, 1_GiB)) ==
        trace_of(played.represented.programs, played.timeline));
  save_table(session, file);
  std::ifstream lines(file);
  std::string head, row, more;
  std::getline(lines, head);
  std::getline(lines, row);
  CHECK(head.starts_with("#,Fits,Step"));
  CHECK(row.starts_with("1,yes,"));
  CHECK_FALSE(std::getline(lines, more));
  CHECK_THROWS_AS(save_table(session, (folder.path() / "none/file").string()), std::system_error);
  // A plan from a file is the same plan.
  save_plan(session, file + ".json");
  const Plan plan = detail.plan;
  session.try_plan(file + ".json");
  REQUIRE(settles(session));
  CHECK(session.problem() == "");
  CHECK(session.detail()->plan == plan);
  CHECK(session.detail()->choices->tp == 2);
}

}  // namespace meshwright
