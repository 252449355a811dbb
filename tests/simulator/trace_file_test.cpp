#include "simulator/report/trace_file.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "costmodel/base/input_error.h"
#include "simulator/engine/simulate.h"
#include "tests/flat_transfer.h"
#include "tests/simulator/program_builder.h"
#include "tests/simulator/random_programs.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

std::vector<Json> events_of(const Json& trace, const std::string& phase) {
  std::vector<Json> events;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase) events.push_back(event);
  }
  return events;
}

std::int64_t nanoseconds(const Json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}

}  // namespace

TEST_CASE("a trace names devices and lanes and has every task in its lane") {
  ProgramBuilder builder(3);
  const BufferId buffer = builder.buffer("x", 25, Component::Activations);
  const TaskId task = builder.kernel(
      {.kind = KernelKind::Matmul,
       .operands = {dense_operand({2, 3}), dense_operand({3, 4}), dense_operand({2, 4})},
       .name = "say \"h.0\""},
      {buffer}, {}, 7);
  builder.transfer(flat({.purpose = Purpose::Gradients, .group = device_ids({3})}, 25), "gradients",
                   {buffer, buffer}, {task});
  FixedCosts costs;
  costs.kernels = {{"say \"h.0\"", 1.5_us}};
  costs.latency = 2.25_us;
  const std::vector programs = {builder.program()};
  const Json trace = Json::parse(trace_text(programs, simulate(programs, costs)));

  const Json names = events_of(trace, "M");
  CHECK(names.at(0) == Json({{"pid", 3},
                             {"tid", 0},
                             {"ph", "M"},
                             {"name", "process_name"},
                             {"args", {{"name", "device 3"}}}}));
  CHECK(names.at(1).at("args").at("name") == "compute");
  CHECK(names.at(2).at("args").at("name") == "gradients");
  CHECK(names.at(2).at("name") == "thread_name");

  const Json tasks = events_of(trace, "X");
  CHECK(tasks.size() == 2);
  CHECK(tasks.at(0) == Json({{"pid", 3},
                             {"tid", 0},
                             {"ph", "X"},
                             {"ts", 0.0},
                             {"dur", 1.5},
                             {"name", "say \"h.0\" forward"},
                             {"cat", "kernel"},
                             // 2 x 2 x 3 x 4 operations; 4 bytes for each of 6 + 12 + 8 numbers
                             {"args",
                              {{"kind", "matmul"},
                               {"part", "forward"},
                               {"flops", 48},
                               {"bytes", 104},
                               {"microbatch", 7}}}}));
  CHECK(tasks.at(1).at("tid") == 1);
  CHECK(tasks.at(1).at("ts") == 1.5);
  CHECK(tasks.at(1).at("dur") == 2.25);
  CHECK(tasks.at(1).at("name") == "all_reduce gradients");
  CHECK(tasks.at(1).at("args").at("bytes") == 100);
  CHECK(tasks.at(1).at("args").at("group") == Json({3}));

  const Json memory = events_of(trace, "C");
  CHECK(memory.size() == 2);
  CHECK(memory.at(0).at("ts") == 0.0);
  CHECK(memory.at(0).at("args").at("activations") == 100);
  CHECK(memory.at(0).at("args").size() == kComponents);
  CHECK(memory.at(1).at("ts") == 3.75);
  CHECK(memory.at(1).at("args").at("activations") == 0);
}

TEST_CASE("tasks of a lane do not overlap in a trace, to the nanosecond") {
  CHECK(rc::check([] {
    FixedCosts costs = random_costs();
    for (auto& [name, time] : costs.kernels) time = time * 1e-6 / 3;
    costs.latency = costs.latency * 1e-6 / 7;
    const RandomRun run = random_run(costs);
    const Json trace = Json::parse(trace_text(run.programs, simulate(run.programs, costs)));
    std::map<std::pair<int, int>, std::int64_t> free;
    std::size_t tasks = 0;
    for (const Json& event : events_of(trace, "X")) {
      auto& finish = free[{event.at("pid"), event.at("tid")}];
      RC_ASSERT(nanoseconds(event.at("ts")) >= finish);
      finish = nanoseconds(event.at("ts")) + nanoseconds(event.at("dur"));
      ++tasks;
    }
    std::size_t expected = 0;
    for (const Program& program : run.programs) expected += program.tasks.size();
    RC_ASSERT(tasks == expected);
    RC_ASSERT(events_of(trace, "C").size() >= run.programs.size());
  }));
}

TEST_CASE("a trace is read back as it was written") {
  CHECK(rc::check([] {
    FixedCosts costs = random_costs();
    for (auto& [name, time] : costs.kernels) time = time * 1e-6 / 3;
    costs.latency = costs.latency * 1e-6 / 7;
    const RandomRun run = random_run(costs);
    Timeline timeline = simulate(run.programs, costs);
    timeline.devices[0].count = 3;
    const std::string text = trace_text(run.programs, timeline);
    const Trace trace = read_trace(JsonInput::parse(text, "trace.json"));
    RC_ASSERT(trace == trace_of(run.programs, timeline));
    RC_ASSERT(trace.step == timeline.step);
    RC_ASSERT(trace.devices.size() == run.programs.size());
    for (std::size_t d = 0; d < trace.devices.size(); ++d) {
      RC_ASSERT(trace.devices[d].lanes == run.programs[d].lanes);
      RC_ASSERT(trace.devices[d].count == timeline.devices[d].count);
      for (std::size_t t = 0; t < trace.devices[d].tasks.size(); ++t) {
        const TracedTask& task = trace.devices[d].tasks[t];
        const TaskSpan& span = timeline.devices[d].tasks[t];
        RC_ASSERT(std::abs((task.span.start - span.start).value()) <= 1e-9);
        RC_ASSERT(std::abs((task.span.finish - span.finish).value()) <= 1e-9);
        RC_ASSERT(task.lane == run.programs[d].tasks[t].lane.index());
      }
    }
  }));
}

TEST_CASE("what is no trace of ours is refused with the field that is wrong") {
  const auto message = [](const std::string& text) {
    try {
      read_trace(JsonInput::parse(text, "t.json"));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  const auto with_event = [](const std::string& event) {
    return R"({"otherData":{"format":"meshwright-trace","version":1,"step_s":1},"traceEvents":[)" +
           event + "]}";
  };
  CHECK(message(R"({"traceEvents":[]})") ==
        "t.json: expected a trace that simulate or run has written (otherData.format: "
        "\"meshwright-trace\")");
  CHECK(message(with_event("")) == "read");
  CHECK(message(with_event(R"({"ph":"X","pid":0})")) ==
        "t.json: traceEvents[0].pid: expected the device whose name stands before it, found 0");
  const std::string device = R"({"ph":"M","pid":0,"name":"process_name","args":{}},)";
  CHECK(message(with_event(device + R"({"ph":"B","pid":0})")) ==
        "t.json: traceEvents[1].ph: expected M, X or C, found \"B\"");
  CHECK(message(with_event(device + R"({"ph":"X","pid":0,"ts":1,"dur":1,"tid":0,"name":"a",
                                      "cat":"song","args":{}})")) ==
        "t.json: traceEvents[1].cat: expected kernel, transfer or copy, found \"song\"");
}

}  // namespace meshwright
