// Whatever a person does in whatever order: the window goes on, and what it shows is there.
#include <QTest>
#include <QWheelEvent>
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <random>

#include "gui/open_file.h"
#include "simulator/report/trace_file.h"
#include "tests/bad_files.h"
#include "tests/gui/application.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

// Does things at random that a person could do.
class Person {
 public:
  Person(GuiSession& session, MainWindow& window, std::string trace, unsigned seed)
      : session_(session), window_(window), trace_(std::move(trace)), numbers_(seed) {}

  void do_something() {
    const std::function<void()> deeds[] = {
        [this] { session_.start_search(); },
        [this] { session_.stop_search(); },
        [this] { session_.undo(); },
        [this] { session_.redo(); },
        [this] {
          session_.set_filter(pick<std::string>({"", "tp<=2", "dp>100", "step<", "zero=1|3"}));
        },
        [this] {
          session_.try_plan(pick<std::string>({"dp=8", "dp=2,tp=2,pp=2", "pp=4", "dp=9"}));
        },
        [this] {
          open_file(session_, pick<std::string>({trace_, "h100:2x8", "h100", "nowhere"}));
        },
        [this] { select(); },
        [this] { mark(); },
        [this] {
          session_.find_tasks(pick<std::string>({"", "attention", "q", "zzz"}));
        },
        [this] { window_.resize(number(1, 1600), number(1, 1000)); },
        [this] {
          session_.set_theme_choice(pick<ThemeChoice>({ThemeChoice::Dark, ThemeChoice::Light}));
        },
        [this] { session_.set_every_column(number(0, 1) == 1); },
        [this] { drag(); },
        [this] { drag(); },
        [this] { turn_wheel(); },
        [this] { press_key(); },
        [this] { press_key(); },
        [this] { show_match(); },
        [this] { QTest::qWait(number(0, 20)); },
    };
    deeds[static_cast<std::size_t>(number(0, static_cast<int>(std::size(deeds)) - 1))]();
    QCoreApplication::processEvents();
  }

 private:
  int number(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(numbers_);
  }
  template <class Value>
  Value pick(const std::vector<Value>& values) {
    return values[static_cast<std::size_t>(number(0, static_cast<int>(values.size()) - 1))];
  }
  QWidget& view() { return *window_.view(pick(window_.view_names())); }
  QPoint point_in(const QWidget& view) {
    return {number(0, std::max(0, view.width() - 1)), number(0, std::max(0, view.height() - 1))};
  }

  void select() {
    if (session_.rows().empty()) return;
    session_.select(
        static_cast<std::uint32_t>(number(0, static_cast<int>(session_.rows().size()) - 1)));
  }
  void mark() {
    if (session_.rows().empty()) return;
    session_.toggle_mark(
        static_cast<std::uint32_t>(number(0, static_cast<int>(session_.rows().size()) - 1)));
  }
  // What happens in the meantime happens to what is held.
  void drag() {
    QWidget& one = view();
    const auto modifiers = pick<Qt::KeyboardModifiers>({Qt::NoModifier, Qt::ShiftModifier});
    QTest::mousePress(&one, Qt::LeftButton, modifiers, point_in(one));
    if (number(0, 1) == 1) QTest::qWait(number(0, 10));
    QTest::mouseMove(&one, point_in(one));
    QTest::mouseRelease(&one, Qt::LeftButton, modifiers, point_in(one));
  }
  void turn_wheel() {
    QWidget& one = view();
    const QPoint at = point_in(one);
    const auto modifiers =
        pick<Qt::KeyboardModifiers>({Qt::NoModifier, Qt::ShiftModifier, Qt::ControlModifier});
    QWheelEvent event(at, one.mapToGlobal(at), {}, {0, number(-4, 4) * 120}, Qt::NoButton,
                      modifiers, Qt::NoScrollPhase, false);
    QApplication::sendEvent(&one, &event);
  }
  void press_key() {
    const auto key = pick<Qt::Key>(
        {Qt::Key_W,    Qt::Key_S,     Qt::Key_A,      Qt::Key_D,         Qt::Key_Z,
         Qt::Key_F,    Qt::Key_E,     Qt::Key_P,      Qt::Key_N,         Qt::Key_0,
         Qt::Key_Home, Qt::Key_Up,    Qt::Key_Down,   Qt::Key_Period,    Qt::Key_Comma,
         Qt::Key_Plus, Qt::Key_Minus, Qt::Key_Escape, Qt::Key_Backspace, Qt::Key_Space});
    QKeyEvent event(QEvent::KeyPress, key,
                    pick<Qt::KeyboardModifiers>({Qt::NoModifier, Qt::ShiftModifier}));
    QApplication::sendEvent(&view(), &event);
  }
  void show_match() {
    auto* timeline = dynamic_cast<Findable*>(window_.view("timeline"));
    if (timeline->match_count() == 0) return;
    timeline->show_match(
        static_cast<std::size_t>(number(0, static_cast<int>(timeline->match_count()) - 1)));
  }

  GuiSession& session_;
  MainWindow& window_;
  std::string trace_;
  std::mt19937 numbers_;
};

void check_what_is_shown(const GuiSession& session) {
  const std::size_t rows = session.rows().size();
  if (session.selected()) CHECK(*session.selected() < rows);
  for (const std::uint32_t row : session.marked()) CHECK(row < rows);
  for (const std::uint32_t row : session.visible()) CHECK(row < rows);
  if (session.detail() || session.traced()) {
    CHECK(session.time() == within(session.time(), session.whole_time().length));
  }
  if (session.detail()) {
    CHECK(session.device() < session.detail()->prediction.report.devices.size());
  }
}

}  // namespace

TEST_CASE("whatever a person does in whatever order, the window goes on") {
  application();
  const TemporaryFolder folder;
  const std::string trace = (folder.path() / "step.json").string();
  {
    GuiSession session(shipped_data());
    session.set_inputs(small_question());
    session.try_plan("pp=2,microbatch=1");
    REQUIRE(settles(session));
    const Prediction& played = session.detail()->prediction;
    std::ofstream(trace) << trace_text(played.represented.programs, played.timeline);
  }
  for (unsigned seed = 1; seed <= static_cast<unsigned>(cases(4, 100)); ++seed) {
    INFO("seed " << seed);
    GuiSession session(shipped_data());
    session.set_inputs(small_question());
    MainWindow window(session);
    window.show();
    Person person(session, window, trace, seed);
    for (int deed = 0; deed < 150; ++deed) {
      INFO("deed " << deed);
      person.do_something();
      check_what_is_shown(session);
    }
    session.stop_search();
    REQUIRE(settles(session));
    check_what_is_shown(session);
    CHECK_FALSE(window.grab().isNull());
  }
}

}  // namespace meshwright
