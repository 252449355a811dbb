#include "simulator/report/trace_file.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "simulator/engine/simulate.h"
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
  builder.transfer({.purpose = Purpose::Gradients, .group = device_ids({3}), .count = 25},
                   "gradients", {buffer}, {task});
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
  CHECK(tasks.at(0) ==
        Json({{"pid", 3},
              {"tid", 0},
              {"ph", "X"},
              {"ts", 0.0},
              {"dur", 1.5},
              {"name", "say \"h.0\" forward"},
              {"cat", "kernel"},
              // 2 x 2 x 3 x 4 operations; 4 bytes for each of 6 + 12 + 8 numbers
              {"args", {{"kind", "matmul"}, {"flops", 48}, {"bytes", 104}, {"microbatch", 7}}}}));
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

}  // namespace meshwright
