#include "gui/session.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "gui/open_file.h"
#include "simulator/report/held_buffers.h"
#include "tests/bad_files.h"
#include "tests/gui/application.h"

namespace meshwright {

TEST_CASE("a search in the window finds what the search library finds") {
  application();
  GuiSession session(shipped_data());
  session.set_inputs(small_question());
  session.start_search();
  CHECK(session.search().running);
  REQUIRE(settles(session));
  CHECK(session.problem() == "");
  CHECK_FALSE(session.search().running);
  CHECK(session.search().complete);
  const AskedSearch asked(small_question(), session.command_session());
  const SearchResult result = search(asked.question, asked.setting->setting);
  REQUIRE_FALSE(result.plans.empty());
  CHECK(session.rows().size() == result.candidates.size());
  REQUIRE(session.selected());
  const PlanRow& first = session.rows()[*session.selected()];
  CHECK(first.choices == result.plans.front().choices);
  CHECK(*first.report == result.plans.front().report);
  CHECK(first.on_front);
  // The selected plan was played, and it is the same step.
  REQUIRE(session.detail());
  CHECK(session.detail()->prediction.report == result.plans.front().report);
  CHECK(session.detail()->lanes.task_count > 100);
  REQUIRE(session.knobs());
  CHECK_FALSE(session.knobs()->empty());
}

TEST_CASE("plans come while a search runs, and a search that is stopped keeps what it has") {
  application();
  GuiSession session(shipped_data());
  Inputs inputs = small_question();
  inputs.model = "llama3-8b";
  inputs.cluster = "h100:2x8";
  inputs.global_batch = "64";
  inputs.sequence = "1024";
  session.set_inputs(inputs);
  QSignalSpy batches(&session, &GuiSession::rows_changed);
  session.start_search();
  while (session.rows().empty() && batches.wait(60'000)) {
  }
  const std::size_t seen = session.rows().size();
  CHECK(seen > 0);
  session.stop_search();
  REQUIRE(settles(session));
  CHECK_FALSE(session.search().running);
  CHECK(session.rows().size() >= seen);
  REQUIRE(session.selected());
  CHECK(session.detail());
}

TEST_CASE("a session that goes away in the middle of a search waits for it") {
  application();
  {
    GuiSession session(shipped_data());
    Inputs inputs = small_question();
    inputs.model = "llama3-70b";
    inputs.cluster = "h100:8x8";
    inputs.global_batch = "512";
    session.set_inputs(inputs);
    session.start_search();
  }
  // What it still had to say is dropped.
  QCoreApplication::processEvents();
  SUCCEED();
}

TEST_CASE("only the newest of two selections is shown") {
  application();
  GuiSession session(shipped_data());
  session.set_inputs(small_question());
  session.start_search();
  REQUIRE(settles(session));
  REQUIRE(session.visible().size() > 2);
  session.select(session.visible()[1]);
  session.select(session.visible()[2]);
  REQUIRE(settles(session));
  CHECK(session.detail()->choices == session.rows()[session.visible()[2]].choices);
}

TEST_CASE("what the command line says of a mistake, the window says") {
  application();
  GuiSession session(shipped_data());
  const auto problem_with = [&](auto change) {
    Inputs inputs = small_question();
    change(inputs);
    session.set_inputs(inputs);
    session.start_search();
    REQUIRE(settles(session));
    CHECK_FALSE(session.search().running);
    return session.problem();
  };
  using Catch::Contains;
  CHECK_THAT(problem_with([](Inputs& in) { in.model = "gpt5000"; }), Contains("gpt5000"));
  CHECK_THAT(problem_with([](Inputs& in) { in.global_batch = "many"; }),
             Contains("--global-batch"));
  CHECK_THAT(problem_with([](Inputs& in) { in.global_batch = ""; }), Contains("--global-batch"));
  CHECK_THAT(problem_with([](Inputs& in) { in.pins = "tp=7000"; }), Contains("tp"));
  CHECK_THAT(problem_with([](Inputs& in) { in.max_memory = "soft"; }), Contains("--max-memory"));
  CHECK_THAT(problem_with([](Inputs& in) { in.cluster = "/no/such/file.json"; }),
             Contains("/no/such/file.json"));
  CHECK(problem_with([](Inputs&) {}) == "");
}

TEST_CASE("a plan can be tried by its short form, and one that cannot be is refused in words") {
  application();
  GuiSession session(shipped_data());
  session.set_inputs(small_question());
  session.try_plan("dp=4,tp=2,microbatch=2");
  REQUIRE(settles(session));
  CHECK(session.problem() == "");
  REQUIRE(session.rows().size() == 1);
  CHECK(session.rows()[0].choices.tp == 2);
  CHECK(session.selected() == 0u);
  session.try_plan("dp=3,tp=5");
  REQUIRE(settles(session));
  CHECK_FALSE(session.problem().empty());
  CHECK(session.rows().size() == 1);
}

TEST_CASE("files are taken for what they are") {
  application();
  GuiSession session(shipped_data());
  session.set_inputs(small_question());
  open_file(session, "llama3-8b");
  open_file(session, "a100-80:2x8");
  REQUIRE(settles(session));
  CHECK(session.inputs().model == "llama3-8b");
  CHECK(session.inputs().cluster == "a100-80:2x8");
  const std::string cluster = (shipped_data() / "clusters/t4.json").string();
  open_file(session, cluster);
  REQUIRE(settles(session));
  CHECK(session.inputs().cluster == cluster);
  const std::string model = (shipped_data() / "models/gpt2.json").string();
  open_file(session, model);
  REQUIRE(settles(session));
  CHECK(session.inputs().model == model);
  // What comes after a file that cannot be read is not opened, so that the message stays.
  open_file(session, "/no/such/file.json");
  open_file(session, "llama3-8b");
  REQUIRE(settles(session));
  CHECK_THAT(session.problem(), Catch::Contains("/no/such/file.json"));
  CHECK(session.inputs().model == model);
  const TemporaryFolder folder;
  const std::string broken = (folder.path() / "broken.json").string();
  std::ofstream(broken) << "{\"otherData\": 3}";
  open_file(session, broken);
  REQUIRE(settles(session));
  CHECK_THAT(session.problem(), Catch::Contains("broken.json"));
  CHECK_FALSE(session.traced());
}

TEST_CASE("of a search that was saved the question is asked again and its plans are there") {
  application();
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "search.json").string();
  std::ofstream(file) << R"({"plans": [{"choices": "dp=8,tp=1,pp=1"}, {"choices": null},
    {"choices": "dp=4,tp=2,pp=1,zero=1"}], "model": {"name": "gpt2-tiny"}, "cluster": {"name": "h100"},
    "global_batch": 16, "sequence": 64, "precision": "bf16", "software": "megatron-core",
    "objective": "time", "pins": "", "forbids": "zero=3"})";
  GuiSession session(shipped_data());
  open_file(session, file);
  REQUIRE(settles(session));
  CHECK(session.problem() == "");
  CHECK(session.inputs().global_batch == "16");
  CHECK(session.inputs().forbids == "zero=3");
  REQUIRE(session.rows().size() == 2);
  CHECK(session.rows()[0].choices.dp == 8);
  CHECK(session.rows()[1].choices.tp == 2);
  std::ofstream(file) << R"({"plans": [], "model": 3})";
  open_file(session, file);
  REQUIRE(settles(session));
  CHECK_THAT(session.problem(), Catch::Contains("search.json"));
}

TEST_CASE("a file that changes after it was read is a message, and so is one that vanishes") {
  application();
  const TemporaryFolder folder;
  const auto model = folder.path() / "model.json";
  std::filesystem::copy_file(shipped_data() / "models/gpt2-tiny.json", model);
  GuiSession session(shipped_data());
  const MainWindow window(session);
  Inputs inputs = small_question();
  inputs.model = model.string();
  session.set_inputs(inputs);
  session.try_plan("dp=8");
  REQUIRE(settles(session));
  CHECK(session.problem() == "");
  QSignalSpy told(&session, &GuiSession::problem_changed);
  std::filesystem::remove(model);
  if (session.problem().empty()) CHECK(told.wait(60'000));
  CHECK_THAT(session.problem(), Catch::Contains("model.json is not there any more"));
}

TEST_CASE("a trace that was saved has the lanes of the prediction") {
  application();
  GuiSession session(shipped_data());
  session.set_inputs(small_question());
  session.try_plan("dp=2,tp=2,pp=2,microbatch=2");
  REQUIRE(settles(session));
  REQUIRE(session.detail());
  const Prediction& played = session.detail()->prediction;
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "step.json").string();
  std::ofstream(file) << trace_text(played.represented.programs, played.timeline);
  open_file(session, file);
  REQUIRE(settles(session));
  REQUIRE(session.problem() == "");
  REQUIRE(session.traced());
  const TimelineLanes &lanes = session.detail()->lanes, &traced = session.traced()->lanes;
  CHECK(traced.task_count == lanes.task_count);
  REQUIRE(traced.lanes.size() == lanes.lanes.size());
  for (std::size_t i = 0; i < lanes.lanes.size(); ++i) {
    CHECK(traced.lanes[i].name == lanes.lanes[i].name);
    REQUIRE(traced.lanes[i].tasks.size() == lanes.lanes[i].tasks.size());
    for (std::size_t t = 0; t < lanes.lanes[i].tasks.size(); ++t) {
      CHECK(traced.lanes[i].tasks[t].hue == lanes.lanes[i].tasks[t].hue);
      CHECK(traced.lanes[i].tasks[t].start == lanes.lanes[i].tasks[t].start);
    }
  }
}

TEST_CASE("buffers that a device holds at a moment add up to what the timeline has there") {
  application();
  GuiSession session(shipped_data());
  session.set_inputs(small_question());
  session.try_plan("dp=2,tp=2,pp=2,microbatch=2,zero=1");
  REQUIRE(settles(session));
  REQUIRE(session.detail());
  const Prediction& played = session.detail()->prediction;
  for (std::size_t d = 0; d < played.represented.programs.size(); ++d) {
    const Program& program = played.represented.programs[d];
    const DeviceTimeline& device = played.timeline.devices[d];
    for (std::size_t s = 0; s < device.memory.size(); s += 1 + device.memory.size() / 20) {
      Bytes held;
      for (const BufferId id :
           held_buffers(program, device, played.timeline.step, device.memory[s].time)) {
        held += bytes_of(program.buffers[id.index()], program.precision);
      }
      INFO("device " << d << " sample " << s);
      CHECK(held == total(device.memory[s].bytes));
    }
  }
}

TEST_CASE(
    "what is about weights is called by those that it was cut from, whatever shares them out") {
  application();
  for (const char* plan : {"dp=2,tp=2,pp=2,microbatch=2,zero=1", "dp=8,zero=3,microbatch=2",
                           "dp=4,tp=2,zero=2,microbatch=2", "dp=8,offload=optimizer"}) {
    GuiSession session(shipped_data());
    session.set_inputs(small_question());
    session.try_plan(plan);
    REQUIRE(settles(session));
    INFO(plan << ": " << session.problem());
    REQUIRE(session.detail());
    const Program& program = session.detail()->prediction.represented.programs.front();
    const auto weights = weights_of_buffers(program);
    std::size_t about = 0;
    for (std::size_t b = 0; b < program.buffers.size(); ++b) {
      const std::string name(program.buffers[b].name.text());
      const Component component = program.buffers[b].component;
      INFO(name);
      const bool is_state = component == Component::Weights || component == Component::Gradients ||
                            component == Component::Optimizer;
      REQUIRE(weights[b].has_value() == is_state);
      if (!is_state || name.starts_with("gradient ")) continue;
      // Buffers are numbered as their weights are.
      const std::string other(program.buffers[weights[b]->index()].name.text());
      CHECK(name.substr(name.rfind(' ')) == other.substr(other.rfind(' ')));
      CHECK_FALSE(names_in(program, *weights[b]).empty());
      ++about;
    }
    CHECK(about > 4);
  }
}

TEST_CASE("a trace that is longer than the prediction is seen whole, unless a person zoomed") {
  application();
  GuiSession session(shipped_data());
  session.set_inputs(small_question());
  const TemporaryFolder folder;
  const auto saved_step = [&](const char* plan) {
    session.try_plan(plan);
    REQUIRE(settles(session));
    const Prediction& played = session.detail()->prediction;
    std::string file = (folder.path() / (std::string(plan) + ".json")).string();
    std::ofstream(file) << trace_text(played.represented.programs, played.timeline);
    return file;
  };
  const std::string slow = saved_step("pp=2,microbatch=1"), fast = saved_step("dp=8");
  const std::int64_t predicted = session.detail()->lanes.end;
  CHECK(session.time() == TimeAxis{0, predicted});
  open_file(session, slow);
  REQUIRE(settles(session));
  REQUIRE(session.traced()->lanes.end > predicted);
  CHECK(session.time() == TimeAxis{0, session.traced()->lanes.end});
  // Another prediction shows both, too.
  session.try_plan("dp=4");
  REQUIRE(settles(session));
  CHECK(session.time() == session.whole_time());
  const TimeAxis zoomed{10, 1000};
  session.set_time(zoomed);
  open_file(session, slow);
  REQUIRE(settles(session));
  CHECK(session.time() == zoomed);
  // What ends before the stretch that is looked at moves it back into what there is.
  session.set_time({session.whole_time().length - 1000, 1000});
  open_file(session, fast);
  REQUIRE(settles(session));
  CHECK(session.time() == within(session.time(), session.whole_time().length));
}

TEST_CASE("the command line that is copied asks what the window asked") {
  Inputs inputs = small_question();
  inputs.max_memory = "70 GiB";
  inputs.pins = "tp=2,pp=1";
  CHECK(command_line_of(inputs) ==
        "meshwright plan --model gpt2-tiny --cluster h100 --global-batch 32 --seq 64 --max-memory "
        "'70 GiB' --pin tp=2,pp=1");
  inputs.model = "it's";
  CHECK_THAT(command_line_of(inputs), Catch::Contains("--model 'it'\\''s'"));
}

}  // namespace meshwright
