// Files that are opened, saved, changed while they are shown, and broken.
#include <sys/stat.h>

#include <QDropEvent>
#include <QMimeData>
#include <QTest>
#include <QUrl>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <random>

#include "gui/open_file.h"
#include "gui/save_actions.h"
#include "gui/session_file.h"
#include "tests/bad_files.h"
#include "tests/gui/application.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream input(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(input), {}};
}

// One of every kind that can be opened, all of them good.
std::vector<std::filesystem::path> good_files(const TemporaryFolder& folder) {
  GuiSession session(shipped_data());
  session.set_inputs(small_question());
  session.try_plan("dp=4,tp=2,zero=1");
  REQUIRE(settles(session));
  REQUIRE(session.problem() == "");
  const auto plan = folder.path() / "plan.json", step = folder.path() / "step.json";
  save_plan(session, plan.string());
  save_trace(session, step.string());
  return {plan, step, folder.write("session.json", session_text(session.saved())),
          folder.write("model.json", text_of(shipped_data() / "models/gpt2-tiny.json")),
          folder.write("cluster.json", text_of(shipped_data() / "clusters/h100.json"))};
}

// Torn, or with some of its letters changed.
std::string broken(std::string text, std::mt19937& numbers) {
  const auto draw = [&](std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(0, most)(numbers);
  };
  constexpr std::string_view kLetters = "0{}[]\",:-e9\0\xff x";
  if (draw(2) == 0) text.resize(draw(text.size() - 1));
  for (std::size_t i = draw(3); i > 0 && !text.empty(); --i) {
    text[draw(text.size() - 1)] = kLetters[draw(kLetters.size() - 1)];
  }
  return text;
}

void drop(QWidget& window, const std::vector<std::filesystem::path>& files) {
  QMimeData dragged;
  QList<QUrl> urls;
  for (const auto& file : files) {
    urls.push_back(QUrl::fromLocalFile(QString::fromStdString(file.string())));
  }
  dragged.setUrls(urls);
  QDragEnterEvent enter({50, 50}, Qt::CopyAction, &dragged, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(&window, &enter);
  CHECK(enter.isAccepted());
  QDropEvent event(QPointF(50, 50), Qt::CopyAction, &dragged, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(&window, &event);
}

}  // namespace

TEST_CASE("a plan that was saved is opened with its question, priced, and exported") {
  application();
  const TemporaryFolder folder;
  const auto file = (folder.path() / "plan.json").string();
  GuiSession session(shipped_data());
  Inputs inputs = small_question();
  inputs.global_batch = "16";
  session.set_inputs(inputs);
  session.try_plan("dp=4,tp=2,zero=1");
  REQUIRE(settles(session));
  save_plan(session, file);
  GuiSession again(shipped_data());
  open_file(again, file);
  REQUIRE(settles(again));
  REQUIRE(again.problem() == "");
  CHECK(again.inputs().model == "gpt2-tiny");
  CHECK(again.inputs().cluster == "h100");
  CHECK(again.inputs().global_batch == "16");
  REQUIRE(again.detail());
  CHECK(again.detail()->file == file);
  CHECK(again.detail()->plan == session.detail()->plan);
  REQUIRE(again.detail()->choices);
  CHECK(again.detail()->choices->zero == 1);
  CHECK(again.detail()->prediction.report == session.detail()->prediction.report);
  CHECK(again.rows().size() == 1);
  REQUIRE(again.knobs());
  CHECK(again.knobs()->size() == session.knobs()->size());
}

TEST_CASE("a file that is shown and changes or vanishes is a message, of whatever kind it is") {
  application();
  const TemporaryFolder folder;
  good_files(folder);
  GuiSession session(shipped_data());
  const MainWindow window(session);
  for (const char* name : {"model.json", "plan.json", "step.json"}) {
    open_file(session, (folder.path() / name).string());
    REQUIRE(settles(session));
  }
  REQUIRE(session.problem() == "");
  const auto told = [&](const std::string& words) {
    return QTest::qWaitFor([&] { return session.problem().find(words) != std::string::npos; },
                           60'000);
  };
  folder.write("step.json", "{}");
  CHECK(told("step.json has changed since it was read"));
  std::filesystem::remove(folder.path() / "plan.json");
  CHECK(told("plan.json is not there any more"));
  // What was read stays.
  CHECK(session.traced());
  CHECK(session.detail());
}

TEST_CASE("whatever is dropped, the window shows it or says what is wrong with it") {
  const auto seed = GENERATE(1u, 2u);
  INFO("seed " << seed);
  application();
  std::mt19937 numbers(seed);
  const TemporaryFolder folder;
  const auto files = good_files(folder);
  GuiSession session(shipped_data());
  MainWindow window(session);
  const int tries = cases(20, 300);
  for (const auto& file : files) {
    const std::string good = text_of(file);
    for (int i = 0; i < tries; ++i) {
      folder.write(file.filename().string(), broken(good, numbers));
      session.set_inputs(small_question());
      session.report_problem("");
      drop(window, {file});
      REQUIRE(settles(session));
      // Models and clusters are read when they are needed.
      if (session.problem().empty() && session.inputs() != small_question()) {
        session.try_plan("dp=8");
      }
      REQUIRE(settles(session));
      INFO(file.filename().string() << " " << i << ": " << session.problem());
      CHECK(session.problem().find('\n') == std::string::npos);
      if (session.problem_code() == ExitCode::BadInputFile && !session.problem().empty()) {
        CHECK_THAT(session.problem(), Catch::Contains(file.filename().string()));
      }
    }
    folder.write(file.filename().string(), good);
  }
  // And it goes on afterwards.
  session.set_inputs(small_question());
  session.try_plan("dp=4,tp=2");
  REQUIRE(settles(session));
  CHECK(session.detail()->choices->tp == 2);
}

TEST_CASE("files that were opened are offered again, and one that has vanished is a message") {
  application();
  const TemporaryFolder folder;
  GuiSession session(shipped_data());
  const MainWindow window(session);
  std::vector<std::string> names;
  for (int i = 0; i < 11; ++i) {
    const auto file = folder.path() / ("model" + std::to_string(i) + ".json");
    std::filesystem::copy_file(shipped_data() / "models/gpt2-tiny.json", file);
    open_file(session, file.string());
    names.insert(names.begin(), file.string());
  }
  REQUIRE(settles(session));
  CHECK(session.problem() == "");
  REQUIRE(session.recent().size() == 9);
  CHECK(std::equal(session.recent().begin(), session.recent().end(), names.begin()));
  open_file(session, names[4]);
  REQUIRE(settles(session));
  CHECK(session.recent().size() == 9);
  CHECK(session.recent().front() == names[4]);
  // Names that are no files are not.
  open_file(session, "gpt2");
  REQUIRE(settles(session));
  CHECK(session.recent().front() == names[4]);
  std::filesystem::remove(names[2]);
  open_file(session, names[2]);
  REQUIRE(settles(session));
  CHECK_THAT(session.problem(), Catch::Contains("model8.json"));
  CHECK(session.problem_code() == ExitCode::BadInputFile);
}

TEST_CASE("a session that was saved can be opened as a file") {
  application();
  const TemporaryFolder folder;
  SavedSession saved;
  saved.inputs = small_question();
  saved.marked = {"dp=8", "dp=4,tp=2"};
  saved.theme = ThemeChoice::Dark;
  const auto file = folder.write("session.json", session_text(saved));
  GuiSession session(shipped_data());
  open_file(session, file.string());
  REQUIRE(settles(session));
  CHECK(session.problem() == "");
  CHECK(session.dark());
  CHECK(session.inputs() == saved.inputs);
  CHECK(session.marked().size() == 2);
  folder.write("session.json", replaced(session_text(saved), "\"marked\": [", "\"marked\": [3, "));
  open_file(session, file.string());
  REQUIRE(settles(session));
  CHECK_THAT(session.problem(), Catch::Contains("session.json") && Catch::Contains("marked"));
}

TEST_CASE("files that are dropped onto the window are opened") {
  application();
  const TemporaryFolder folder;
  const auto model = folder.path() / "model.json", cluster = folder.path() / "cluster.json";
  std::filesystem::copy_file(shipped_data() / "models/gpt2-tiny.json", model);
  std::filesystem::copy_file(shipped_data() / "clusters/h100.json", cluster);
  GuiSession session(shipped_data());
  MainWindow window(session);
  window.show();
  drop(window, {model, cluster});
  REQUIRE(settles(session));
  CHECK(session.inputs().model == model.string());
  CHECK(session.inputs().cluster == cluster.string());
  CHECK(session.recent().size() == 2);
}

TEST_CASE("what is no file is a message, and the window does not wait for it") {
  application();
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe.json", loop = folder.path() / "loop.json";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);  // nobody writes to it
  std::filesystem::create_symlink("loop.json", loop);
  GuiSession session(shipped_data());
  for (const auto& file : {pipe, loop, std::filesystem::path("/dev/zero")}) {
    INFO(file);
    session.report_problem("");
    open_file(session, file.string());
    REQUIRE(settles(session));
    CHECK_THAT(session.problem(), Catch::Contains(file.filename().string()));
    CHECK(session.problem_code() == ExitCode::BadInputFile);
  }
}

TEST_CASE("the window goes on while a large file is read, whatever is in it") {
  application();
  const TemporaryFolder folder;
  // As a trace of another program is, which says what it is nowhere.
  std::string text = "[";
  for (int i = 0; i < 200'000; ++i) text += "{\"ph\": \"X\", \"ts\": 1},\n";
  const auto file = folder.write("large.json", text + "{}]");
  GuiSession session(shipped_data());
  open_file(session, file.string());
  // It came back at once: what is to be read is still to come.
  CHECK_FALSE(session.idle());
  CHECK(session.inputs().model != file.string());
  REQUIRE(settles(session));
  // It may be a model for all that can be said before one is needed.
  CHECK(session.inputs().model == file.string());
}

}  // namespace meshwright
