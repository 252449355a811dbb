#include <QAbstractItemModelTester>
#include <QImage>
#include <QTest>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "gui/cost_view.h"
#include "gui/lane_painter.h"
#include "gui/plans_model.h"
#include "gui/screenshot.h"
#include "gui/theme.h"
#include "tests/bad_files.h"
#include "tests/gui/application.h"

namespace meshwright {
namespace {

std::size_t different_colors(const QImage& image) {
  std::set<QRgb> colors;
  for (int y = 0; y < image.height(); y += 3) {
    for (int x = 0; x < image.width(); x += 3) colors.insert(image.pixel(x, y));
  }
  return colors.size();
}

}  // namespace

TEST_CASE("the table's model keeps the rules of models while rows come, are sorted and filtered") {
  application();
  GuiSession session(shipped_data());
  PlansModel model(session, nullptr);
  const QAbstractItemModelTester tester(&model,
                                        QAbstractItemModelTester::FailureReportingMode::Fatal);
  session.set_inputs(small_question());
  session.start_search();
  REQUIRE(settles(session));
  const int all = model.rowCount();
  CHECK(all == static_cast<int>(session.rows().size()));
  for (int column = 0; column < model.columnCount(); ++column) {
    model.sort(column, Qt::DescendingOrder);
    CHECK(model.rowCount() == all);
  }
  model.sort(-1, Qt::AscendingOrder);
  session.set_filter("zero=3");
  CHECK(model.rowCount() > 0);
  CHECK(model.rowCount() < all);
  for (int line = 0; line < model.rowCount(); ++line) {
    CHECK(session.rows()[model.row_at(line)].choices.zero == 3);
  }
  const std::string csv = rows_text(session, true);
  CHECK(std::ranges::count(csv, '\n') == model.rowCount() + 1);
}

TEST_CASE("a bar of the timeline has the colour of its kind where its time is") {
  TimelineLanes lanes;
  lanes.devices = {{"device 0", 1, 0, 0, 1}};
  lanes.lanes.push_back(
      {"compute", 0, true, {{0, 100, 0, -1, Hue::Forward}, {200, 400, 1, -1, Hue::Optimizer}}, {}});
  lanes.end = lanes.step = 400;
  lanes.lanes[0].pyramid = LanePyramid(lanes.lanes[0].tasks, lanes.end);
  const LaneLayout layout = lay_out_lanes(lanes, 16, {});
  for (const bool dark : {false, true}) {
    const Theme& colors = theme(dark);
    QImage image(400, 16, QImage::Format_RGB32);
    paint_lanes(image, {lanes, layout, {0, 400}, colors, 0});
    CHECK(image.pixel(50, 8) == colors.hue(Hue::Forward).rgb());
    CHECK(image.pixel(150, 8) == colors.stripe.rgb());
    CHECK(image.pixel(300, 8) == colors.hue(Hue::Optimizer).rgb());
    // The same picture, closer: the second task fills it.
    paint_lanes(image, {lanes, layout, {200, 100}, colors, 0});
    CHECK(image.pixel(10, 8) == colors.hue(Hue::Optimizer).rgb());
    CHECK(image.pixel(390, 8) == colors.hue(Hue::Optimizer).rgb());
  }
}

TEST_CASE("transfers of experts are striped, and have one colour in lanes and in breakdowns") {
  CHECK(hue_of_part("experts_transfer") == Hue::ExpertTransfer);
  CHECK(hue_of_part("tensor_transfer") == Hue::TensorTransfer);
  CHECK(hue_of_part("gradients_transfer") == Hue::DataTransfer);
  TimelineLanes lanes;
  lanes.devices = {{"device 0", 1, 0, 0, 1}};
  lanes.lanes.push_back({"ep group", 0, false, {{0, 400, 0, -1, Hue::ExpertTransfer}}, {}});
  lanes.lanes[0].striped = true;
  lanes.end = lanes.step = 400;
  lanes.lanes[0].pyramid = LanePyramid(lanes.lanes[0].tasks, lanes.end);
  QImage image(400, 16, QImage::Format_RGB32);
  const Theme& colors = theme(false);
  paint_lanes(image, {lanes, lay_out_lanes(lanes, 16, {}), {0, 400}, colors, 0});
  const QRgb stripe = colors.hue(Hue::TensorTransfer).rgb();
  CHECK(image.pixel(200, 0) == stripe);
  CHECK(image.pixel(200, 2) != stripe);
  CHECK(image.pixel(200, 2) != colors.stripe.rgb());
  CHECK(image.pixel(200, 4) == stripe);
}

TEST_CASE("colours of bars keep apart from the background, and labels from the bars") {
  const auto light_of = [](const QColor& color) {
    const auto part = [](double value) {
      return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * part(color.redF()) + 0.7152 * part(color.greenF()) +
           0.0722 * part(color.blueF());
  };
  const auto contrast = [&](const QColor& a, const QColor& b) {
    const double first = light_of(a) + 0.05, second = light_of(b) + 0.05;
    return std::max(first / second, second / first);
  };
  for (const bool dark : {false, true}) {
    const Theme& colors = theme(dark);
    CHECK(contrast(colors.text, colors.background) > 7);
    CHECK(contrast(colors.dim, colors.background) > 4);
    CHECK(contrast(colors.limit, colors.background) > 4);
    for (std::size_t hue = 0; hue < kHues; ++hue) {
      INFO(to_text(static_cast<Hue>(hue)) << (dark ? " dark" : " light"));
      if (static_cast<Hue>(hue) != Hue::Idle)
        CHECK(contrast(colors.hues[hue], colors.background) >= 3);
      // Also in any shade of it, as lanes have from afar.
      for (int share = 0; share <= 100; share += 5) {
        const auto part = [&](int from, int to) { return from + (to - from) * share / 100; };
        const QColor &under = colors.stripe, &full = colors.hues[hue];
        const QColor shade(part(under.red(), full.red()), part(under.green(), full.green()),
                           part(under.blue(), full.blue()));
        CHECK(contrast(shade, readable_on(shade)) >= 4.2);
      }
    }
  }
}

TEST_CASE("every view paints something in both themes, alone and in the window") {
  application();
  GuiSession session(shipped_data());
  session.set_inputs(small_question());
  session.try_plan("dp=2,tp=2,pp=2,microbatch=2");
  REQUIRE(settles(session));
  for (const bool dark : {false, true}) {
    session.set_theme_choice(dark ? ThemeChoice::Dark : ThemeChoice::Light);
    apply_theme(dark);
    MainWindow whole(session);
    whole.resize(1280, 720);
    whole.show();
    CHECK(different_colors(whole.grab().toImage()) > 8);
    for (const std::string& name : whole.view_names()) {
      MainWindow window(session);
      REQUIRE(window.show_alone(name));
      window.resize(800, 500);
      window.show();
      INFO(name);
      CHECK(window.centralWidget()->size() == window.size());
      CHECK(different_colors(window.grab().toImage()) > 3);
    }
  }
}

TEST_CASE("colours are the desktop's unless a person chose") {
  application();
  GuiSession session(shipped_data());
  MainWindow window(session);
  const auto shown_dark = [&] {
    CHECK(is_dark(QApplication::palette()) == session.dark());
    return session.dark();
  };
  session.set_desktop_dark(true);
  CHECK(shown_dark());
  session.set_theme_choice(ThemeChoice::Light);
  CHECK_FALSE(shown_dark());
  session.set_theme_choice(ThemeChoice::Dark);
  session.set_desktop_dark(false);
  CHECK(shown_dark());
  session.set_theme_choice(ThemeChoice::Follow);
  CHECK_FALSE(shown_dark());
  // When it changes it is asked again: the desktop of tests is light.
  session.set_desktop_dark(true);
  QEvent changed(QEvent::ThemeChange);
  QApplication::sendEvent(&window, &changed);
  CHECK_FALSE(shown_dark());
}

TEST_CASE("keys move the time that is looked at, and Backspace goes back") {
  application();
  GuiSession session(shipped_data());
  session.set_inputs(small_question());
  MainWindow window(session);
  window.resize(1200, 800);
  window.show();
  session.try_plan("dp=2,tp=2,pp=2,microbatch=2");
  REQUIRE(settles(session));
  QWidget* timeline = window.view("timeline");
  REQUIRE(timeline);
  const TimeAxis whole = session.time();
  QTest::keyClick(timeline, Qt::Key_W);
  QTest::keyClick(timeline, Qt::Key_W);
  CHECK(session.time().length < whole.length / 2 + 1);
  const TimeAxis near = session.time();
  QTest::keyClick(timeline, Qt::Key_D);
  CHECK(session.time().start > near.start);
  CHECK(session.time().length == near.length);
  QTest::keyClick(timeline, Qt::Key_Backspace);
  CHECK(session.time() == near);
  QTest::keyClick(timeline, Qt::Key_Home);
  CHECK(session.time() == whole);
}

TEST_CASE("a picture is written whole, and a place where none can be is said before any work") {
  application();
  const TemporaryFolder folder;
  GuiSession session(shipped_data());
  session.set_inputs(small_question());
  MainWindow window(session);
  GuiOptions options;
  options.size = "1280x720";
  options.screenshot = (folder.path() / "window.png").string();
  take_screenshot(session, window, options);
  const QImage image(QString::fromStdString(*options.screenshot));
  CHECK(image.width() == 1280);
  CHECK(image.height() == 720);
  options.screenshot = (folder.path() / "none/window.png").string();
  CHECK_THROWS_AS(take_screenshot(session, window, options), std::system_error);
  for (const char* name : {"", "window", "window.bmp", "png"}) {
    options.screenshot = (folder.path() / name).string();
    CHECK_THROWS_AS(take_screenshot(session, window, options), UsageError);
  }
  options.screenshot = (folder.path() / "other.png").string();
  for (const char* size : {"", "12", "x", "1280x", "1280x720x3", "0x0", "99999x99999", "-5x400"}) {
    options.size = size;
    INFO(size);
    CHECK_THROWS_AS(take_screenshot(session, window, options), UsageError);
  }
  CHECK_FALSE(std::filesystem::exists(*options.screenshot));
}

}  // namespace meshwright
