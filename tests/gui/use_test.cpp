// What a person does in the window, and what comes of it.
#include <QAction>
#include <QScrollArea>
#include <QTest>
#include <QToolButton>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "cli/runs_option.h"
#include "gui/found_tasks.h"
#include "gui/open_file.h"
#include "gui/session_file.h"
#include "gui/timeline_view.h"
#include "tests/bad_files.h"
#include "tests/gui/application.h"

namespace meshwright {
namespace {

// A pipeline with equal devices, played.
void play_pipeline(GuiSession& session) {
  session.set_inputs(small_question());
  session.try_plan("dp=2,tp=2,pp=2,microbatch=2");
  REQUIRE(settles(session));
  REQUIRE(session.problem() == "");
}

QAction* command_with(const MainWindow& window, const QKeySequence& keys) {
  for (QAction* action : window.commands()) {
    if (action->shortcuts().contains(keys)) return action;
  }
  return nullptr;
}

QPoint lane_point(const QWidget& timeline, double share) {
  const int left = kTimeGutter, right = timeline.width() - 8;
  return {left + static_cast<int>(share * (right - left)), kOverviewHeight + kRulerHeight + 6};
}

// A window that is shown.
struct OpenWindow {
  OpenWindow() {
    window.resize(1400, 900);
    window.show();
  }

  const QApplication& started = application();
  GuiSession session{shipped_data()};
  MainWindow window{session};
};

}  // namespace

TEST_CASE("marks are saved by their short forms, and are there again") {
  application();
  GuiSession session(shipped_data());
  play_pipeline(session);
  session.try_plan("dp=8");
  REQUIRE(settles(session));
  session.toggle_mark(0);
  session.toggle_mark(1);
  session.toggle_pin("device 0, compute");
  session.set_filter("tp<=4");
  session.add_recent("/a/b.json");
  REQUIRE(settles(session));
  const SavedSession saved = session.saved();
  CHECK(saved.marked.size() == 2);
  GuiSession again(shipped_data());
  again.restore(read_session(JsonInput::parse(session_text(saved), "session.json")));
  REQUIRE(settles(again));
  CHECK(again.problem() == "");
  REQUIRE(again.marked().size() == 2);
  CHECK(again.rows()[again.marked()[0]].choices == session.rows()[session.marked()[0]].choices);
  CHECK(again.rows()[again.marked()[1]].choices == session.rows()[session.marked()[1]].choices);
  CHECK(again.compared().size() == 2);
  CHECK(again.pinned() == session.pinned());
  CHECK(again.recent() == session.recent());
  CHECK(again.saved() == saved);
}

TEST_CASE("marks stay when the same is searched again, and are undone and redone") {
  application();
  GuiSession session(shipped_data());
  session.set_inputs(small_question());
  session.start_search();
  REQUIRE(settles(session));
  session.toggle_mark(session.visible()[0]);
  session.toggle_mark(session.visible()[1]);
  const PlanChoices second = session.rows()[session.marked()[1]].choices;
  session.start_search();
  REQUIRE(settles(session));
  REQUIRE(session.marked().size() == 2);
  CHECK(session.rows()[session.marked()[1]].choices == second);
  CHECK(session.compared().size() == 2);
  // What follows within a moment would be one change.
  const auto later = [] { QTest::qWait(static_cast<int>(History<int>::kBurst.count()) + 50); };
  const TimeAxis whole = session.time();
  later();
  session.toggle_mark(session.visible()[2]);
  later();
  session.set_filter("tp<=4");
  later();
  session.set_time({whole.length / 4, whole.length / 2});
  session.undo();
  CHECK(session.time() == whole);
  CHECK(session.filter_text() == "tp<=4");
  session.undo();
  CHECK(session.filter_text() == "");
  CHECK(session.marked().size() == 3);
  session.undo();
  CHECK(session.marked().size() == 2);
  for (int i = 0; i < 3; ++i) session.redo();
  CHECK(session.marked().size() == 3);
  CHECK(session.filter_text() == "tp<=4");
  CHECK(session.time() != whole);
}

TEST_CASE("what goes wrong has the exit code that the command line has for it") {
  application();
  const TemporaryFolder folder;
  GuiSession session(shipped_data());
  const auto code_of = [&](auto change) {
    Inputs inputs = small_question();
    change(inputs);
    session.set_inputs(inputs);
    session.start_search();
    REQUIRE(settles(session));
    CHECK_FALSE(session.problem().empty());
    return session.problem_code();
  };
  const auto bad = folder.write("cluster.json", "{").string();
  CHECK(code_of([](Inputs& in) { in.global_batch = "many"; }) == ExitCode::Usage);
  CHECK(code_of([&](Inputs& in) { in.cluster = bad; }) == ExitCode::BadInputFile);
  open_file(session, folder.write("torn.json", "{\"otherData\": ").string());
  REQUIRE(settles(session));
  CHECK(session.problem_code() == ExitCode::BadInputFile);
}

TEST_CASE("what is measured in the timeline adds up to its length, and is seen in its times") {
  application();
  GuiSession session(shipped_data());
  play_pipeline(session);
  const TimelineLanes& lanes = session.detail()->lanes;
  for (std::size_t device = 0; device < lanes.devices.size(); ++device) {
    for (const double share : {0.0, 0.3, 0.77}) {
      const auto from = static_cast<std::int64_t>(share * static_cast<double>(lanes.step));
      const TimeRange range{true, device, from, from + lanes.step / 5};
      session.set_range(range);
      REQUIRE(settles(session));
      REQUIRE(session.range_times());
      Seconds all, kernels;
      for (const KindTime& time : *session.range_times()) {
        all += time.time;
        const bool exposed = time.part.ends_with("_transfer") || time.part.starts_with("copy_");
        if (time.part != "idle" && !exposed) kernels += time.time;
      }
      const double length = static_cast<double>(range.to - range.from) / 1e9;
      CHECK(all.value() == Approx(length).epsilon(1e-6));
      const auto busy =
          busy_in(lanes.lanes[lanes.devices[device].first_lane], range.from, range.to);
      CHECK(kernels.value() == Approx(static_cast<double>(busy) / 1e9).margin(1e-6));
    }
  }
  // Another plan has other times.
  session.try_plan("dp=8");
  REQUIRE(settles(session));
  CHECK_FALSE(session.range());
}

TEST_CASE("a task is found by any letters of its name, in all of the step and nothing else is") {
  application();
  GuiSession session(shipped_data());
  play_pipeline(session);
  const TimelineLanes& lanes = session.detail()->lanes;
  for (const std::string letters : {"QKV", "all_reduce", "forward", "no such task"}) {
    session.find_tasks(letters);
    REQUIRE(settles(session));
    REQUIRE(session.found());
    std::size_t expected = 0;
    for (const TimelineLane& lane : lanes.lanes) {
      for (const TimedTask& task : lane.tasks) {
        const std::string name = session.task_named(true, lane.device, task.task).name;
        expected += contains_letters(name, letters) ? 1 : 0;
      }
    }
    INFO(letters);
    CHECK(session.found()->places.size() == expected);
    CHECK(session.found()->predicted.task_count == expected);
    CHECK(std::ranges::is_sorted(session.found()->places, {}, &FoundTasks::Place::start));
    for (const FoundTasks::Place& place : session.found()->places) {
      const TimelineLane& lane = lanes.lanes[place.lane];
      const TimedTask& task = lane.tasks[place.task];
      CHECK(contains_letters(session.task_named(true, lane.device, task.task).name, letters));
    }
  }
  session.find_tasks("");
  CHECK_FALSE(session.found());
}

TEST_CASE("published runs are predicted as validate predicts them, on such devices only") {
  application();
  GuiSession session(shipped_data());
  session.compare_runs("h200-sxm");
  REQUIRE(settles(session));
  CHECK(session.problem() == "");
  const RunsCompared& runs = session.runs();
  REQUIRE_FALSE(runs.runs.empty());
  CHECK(runs.runs.size() == runs.all);
  const RunsToPredict wanted = runs_to_predict({}, session.command_session());
  for (const RunOutcome& one : runs.runs) {
    CHECK(one.run.gpu == "H200");
    const auto same = std::ranges::find(wanted.ran, one.run.id, &PublishedRun::id);
    REQUIRE(same != wanted.ran.end());
    const auto predicted = predict_runs({*same}, wanted.settings);
    CHECK(predicted.front().prediction.has_value() == one.prediction.has_value());
    if (one.prediction) CHECK(predicted.front().prediction->step == one.prediction->step);
  }
  REQUIRE(runs.scored);
  CHECK(runs.scored->rows == runs.runs.size());
}

TEST_CASE("no two commands share their keys, and those that people rely on are there") {
  application();
  GuiSession session(shipped_data());
  MainWindow window(session);
  std::map<QString, QString> seen;
  for (const QAction* action : window.findChildren<QAction*>()) {
    for (const QKeySequence& keys : action->shortcuts()) {
      INFO(keys.toString().toStdString() << ": " << action->text().toStdString());
      CHECK(seen.emplace(keys.toString(), action->text()).second);
    }
  }
  for (const char* keys : {"F5",         "Shift+F5",     "Ctrl+R",       "Ctrl+L",
                           "/",          "Ctrl+F",       "Ctrl+D",       "Ctrl+O",
                           "Ctrl+S",     "Ctrl+Shift+P", "Ctrl+Shift+E", "Ctrl+Shift+C",
                           "Ctrl+Z",     "Ctrl+Shift+Z", "F1",           "?",
                           "F11",        "Alt+1",        "Alt+2",        "Alt+3",
                           "Alt+4",      "Alt+5",        "Alt+6",        "Ctrl+Alt+1",
                           "Ctrl+Alt+9", "Ctrl+Q"}) {
    INFO(keys);
    CHECK(seen.contains(keys));
  }
}

TEST_CASE_METHOD(
    OpenWindow, "a drag measures, Z zooms into it, a click on a name folds, P pins and E expands") {
  play_pipeline(session);
  QWidget* timeline = window.view("timeline");
  const auto picture = [&] { return timeline->grab().toImage(); };
  const QPoint from = lane_point(*timeline, 0.25), to = lane_point(*timeline, 0.5);
  QTest::mousePress(timeline, Qt::LeftButton, {}, from);
  QTest::mouseMove(timeline, (from + to) / 2);
  QTest::mouseMove(timeline, to);
  QTest::mouseRelease(timeline, Qt::LeftButton, {}, to);
  REQUIRE(session.range());
  const TimeRange range = *session.range();
  const auto whole = static_cast<double>(session.time().length);
  CHECK(static_cast<double>(range.to - range.from) == Approx(whole / 4).epsilon(0.02));
  QTest::keyClick(timeline, Qt::Key_Z);
  CHECK(session.time().start == range.from);
  CHECK(session.time().length == range.to - range.from);
  QTest::keyClick(timeline, Qt::Key_Escape);
  CHECK_FALSE(session.range());
  QTest::keyClick(timeline, Qt::Key_Home);
  REQUIRE(settles(session));
  const QPoint name(40, kOverviewHeight + kRulerHeight + 6);
  const QImage unfolded = picture();
  QTest::mouseClick(timeline, Qt::LeftButton, {}, name);
  CHECK(picture() != unfolded);
  QTest::mouseClick(timeline, Qt::LeftButton, {}, name);
  CHECK(picture() == unfolded);
  QTest::mouseClick(timeline, Qt::LeftButton, {}, lane_point(*timeline, 0.1));
  const QImage selected = picture();
  QTest::keyClick(timeline, Qt::Key_E);
  CHECK(picture() != selected);
  QTest::keyClick(timeline, Qt::Key_E);
  CHECK(picture() == selected);
  QTest::keyClick(timeline, Qt::Key_P);
  CHECK(session.pinned() == std::vector<std::string>{"device 0, compute"});
  CHECK(picture() != selected);
  session.undo();
  CHECK(session.pinned().empty());
}

TEST_CASE_METHOD(OpenWindow,
                 "Ctrl+F looks for tasks, plans and ops, and Enter goes from one to the next") {
  play_pipeline(session);
  session.try_plan("dp=8");
  REQUIRE(settles(session));
  for (const std::string name : {"timeline", "plans", "graph"}) {
    INFO(name);
    QWidget* view = window.view(name);
    if (auto* area = qobject_cast<QScrollArea*>(view)) view = area->widget();
    auto* findable = dynamic_cast<Findable*>(view);
    REQUIRE(findable);
    window.find_bar().open(*findable, QString::fromStdString(name));
    auto* letters = window.find_bar().findChild<QLineEdit*>();
    letters->clear();
    QTest::keyClicks(letters, name == "plans" ? "dp=8" : "attention");
    REQUIRE(QTest::qWaitFor([&] { return findable->match_count() > 0; }, 60'000));
    const QString all = QString::number(findable->match_count());
    CHECK(window.find_bar().count().text() == "0 / " + all);
    QTest::keyClick(letters, Qt::Key_Return);
    CHECK(window.find_bar().count().text() == "1 / " + all);
    QTest::keyClick(letters, Qt::Key_Return, Qt::ShiftModifier);
    CHECK(window.find_bar().count().text() == all + " / " + all);
    QTest::keyClick(letters, Qt::Key_Escape);
    CHECK_FALSE(window.find_bar().isVisible());
    CHECK(findable->match_count() == 0);
  }
}

TEST_CASE("a term of the filter can be taken away by its button") {
  application();
  GuiSession session(shipped_data());
  MainWindow window(session);
  window.show();
  auto& view = dynamic_cast<PlansView&>(*window.view("plans"));
  session.set_filter("tp<=4 mem<70 zero=1");
  const auto chips = [&] {
    QStringList texts;
    QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
    for (const QToolButton* chip : view.chips().findChildren<QToolButton*>()) {
      texts.push_back(chip->text());
    }
    return texts;
  };
  REQUIRE(chips().size() == 3);
  CHECK(chips()[1].startsWith("needs<70"));
  view.chips().findChildren<QToolButton*>()[1]->click();
  CHECK(session.filter_text() == "tp<=4 zero=1");
  CHECK(chips().size() == 2);
  session.set_filter("");
  CHECK(chips().empty());
}

TEST_CASE_METHOD(OpenWindow, "F11 leaves the pane that has the keys, and brings back the others") {
  play_pipeline(session);
  const auto visible = [&](const char* name) { return window.view(name)->isVisible(); };
  window.activateWindow();
  command_with(window, QKeySequence(Qt::ALT | Qt::Key_4))->trigger();
  REQUIRE(QApplication::focusWidget() == window.view("timeline"));
  command_with(window, QKeySequence(Qt::Key_F11))->trigger();
  CHECK(visible("timeline"));
  CHECK_FALSE(visible("plans"));
  CHECK_FALSE(visible("summary"));
  command_with(window, QKeySequence(Qt::Key_F11))->trigger();
  for (const char* name : {"timeline", "plans", "memory", "summary"}) CHECK(visible(name));
}

TEST_CASE_METHOD(OpenWindow, "a click on the memory shows the tensors that are held then") {
  play_pipeline(session);
  CHECK_FALSE(window.view("holdings")->isVisible());
  QWidget* memory = window.view("memory");
  QTest::mouseClick(memory, Qt::LeftButton, {},
                    {kTimeGutter + (memory->width() - kTimeGutter) / 2, memory->height() / 2});
  CHECK(window.view("holdings")->isVisible());
  const double middle = static_cast<double>(session.time().length) / 2e9;
  CHECK(session.moment().value() == Approx(middle).epsilon(0.05));
}

TEST_CASE_METHOD(OpenWindow, "every tab of the plan is there and opened by its name at any width") {
  play_pipeline(session);
  for (const int wide : {1920, 1280, 1000}) {
    window.resize(wide, 720);
    QCoreApplication::processEvents();
    auto* strip = window.findChild<QWidget*>("plan tabs");
    REQUIRE(strip);
    std::set<QString> names;
    for (QToolButton* button : strip->findChildren<QToolButton*>()) {
      INFO(button->text().toStdString() << " at " << wide);
      CHECK(strip->rect().contains(button->geometry()));
      CHECK(button->width() >= button->sizeHint().width());
      names.insert(button->text());
      QTest::mouseClick(button, Qt::LeftButton);
      CHECK(button->isChecked());
    }
    CHECK(names.size() == 8);
    CHECK(window.view("range")->isVisible());
    CHECK_FALSE(window.view("summary")->isVisible());
  }
}

}  // namespace meshwright
