#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <stdexcept>

#include "simulator/engine/memory_use.h"
#include "simulator/engine/simulate.h"
#include "tests/simulator/program_builder.h"
#include "tests/simulator/random_programs.h"

namespace meshwright {
namespace {

FixedCosts pipeline_costs(Seconds forward, Seconds backward) {
  FixedCosts costs;
  costs.kernels = {{"forward", forward}, {"backward", backward}};
  return costs;
}

Bytes peak(const DeviceTimeline& device, Component component) {
  Bytes most;
  for (const MemorySample& sample : device.memory) {
    most = std::max(most, sample.bytes[static_cast<std::size_t>(component)]);
  }
  return most;
}

Seconds busy(const Program& program, const DeviceTimeline& device) {
  Seconds sum;
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    if (program.tasks[i].lane == LaneId(0)) sum += device.tasks[i].finish - device.tasks[i].start;
  }
  return sum;
}

}  // namespace

TEST_CASE("a pipeline of equal stages takes (m + p - 1) (F + B), 1F1B and all forward first") {
  CHECK(rc::check([] {
    const HandPipeline pipeline = random_pipeline();
    const auto programs = programs_of(pipeline);
    const Seconds forward(*rc::gen::inRange(1, 5)), backward(*rc::gen::inRange(1, 9));
    const Timeline timeline = simulate(programs, pipeline_costs(forward, backward));
    const auto p = static_cast<double>(pipeline.stages);
    const double m = pipeline.microbatches;
    RC_ASSERT(timeline.step == (forward + backward) * (m + p - 1));
    for (std::size_t stage = 0; stage < pipeline.stages; ++stage) {
      RC_ASSERT(timeline.step - busy(programs[stage], timeline.devices[stage]) ==
                (forward + backward) * (p - 1));
    }
  }));
}

TEST_CASE("1F1B keeps min(m, p - i) microbatches on stage i, all forward first keeps m") {
  CHECK(rc::check([] {
    const HandPipeline pipeline = random_pipeline();
    const Timeline timeline = simulate(programs_of(pipeline), pipeline_costs(1.0_s, 2.0_s));
    for (std::size_t stage = 0; stage < pipeline.stages; ++stage) {
      const std::int64_t m = pipeline.microbatches;
      const std::int64_t kept =
          pipeline.order == HandOrder::AllForwardFirst
              ? m
              : std::min(m, static_cast<std::int64_t>(pipeline.stages - stage));
      RC_ASSERT(peak(timeline.devices[stage], Component::Activations) == 4_B * 100 * kept);
    }
  }));
}

TEST_CASE("every task starts as soon as its lane, its waits and its group allow, and no sooner") {
  CHECK(rc::check([] {
    const FixedCosts costs = random_costs();
    const RandomRun run = random_run(costs);
    const Timeline timeline = simulate(run.programs, costs);
    Seconds last;
    for (std::size_t i = 0; i < run.programs.size(); ++i) {
      RC_ASSERT(timeline.devices[i].tasks == run.expected[i]);
      for (const TaskSpan& span : run.expected[i]) last = std::max(last, span.finish);
    }
    RC_ASSERT(timeline.step == last);
  }));
}

TEST_CASE("tasks of one lane never overlap and waits are respected") {
  CHECK(rc::check([] {
    const FixedCosts costs = random_costs();
    const RandomRun run = random_run(costs);
    const Timeline timeline = simulate(run.programs, costs);
    for (std::size_t d = 0; d < run.programs.size(); ++d) {
      const Program& program = run.programs[d];
      const auto& spans = timeline.devices[d].tasks;
      std::map<LaneId, Seconds> free;
      for (std::size_t i = 0; i < spans.size(); ++i) {
        const Task& task = program.tasks[i];
        RC_ASSERT(spans[i].start >= free[task.lane]);
        RC_ASSERT(spans[i].finish >= spans[i].start);
        for (const TaskId wait : program.waits_of(task)) {
          RC_ASSERT(spans[i].start >= spans[wait.index()].finish);
        }
        free[task.lane] = spans[i].finish;
      }
    }
  }));
}

TEST_CASE("twice the bandwidth is never slower for any task") {
  CHECK(rc::check([] {
    FixedCosts costs = random_costs();
    const RandomRun run = random_run(costs);
    const Timeline slow = simulate(run.programs, costs);
    costs.bandwidth = *costs.bandwidth * 2;
    const Timeline fast = simulate(run.programs, costs);
    RC_ASSERT(fast.step <= slow.step);
    for (std::size_t d = 0; d < run.programs.size(); ++d) {
      for (std::size_t i = 0; i < run.programs[d].tasks.size(); ++i) {
        RC_ASSERT(fast.devices[d].tasks[i].finish <= slow.devices[d].tasks[i].finish);
      }
    }
  }));
}

TEST_CASE("the order of the programs does not change any time, and a repetition nothing at all") {
  CHECK(rc::check([] {
    const FixedCosts costs = random_costs();
    RandomRun run = random_run(costs);
    Timeline timeline = simulate(run.programs, costs);
    RC_ASSERT(simulate(run.programs, costs) == timeline);
    std::ranges::reverse(run.programs);
    std::ranges::reverse(timeline.devices);
    RC_ASSERT(simulate(run.programs, costs) == timeline);
  }));
}

TEST_CASE("a slow member delays its group and nobody else") {
  std::vector<Program> programs;
  for (std::size_t device = 0; device < 3; ++device) {
    ProgramBuilder builder(device);
    const TaskId work = builder.kernel({.name = device == 1 ? "slow" : "work"});
    builder.transfer({.group = device == 2 ? device_ids({2}) : device_ids({0, 1})}, "ring", {},
                     {work});
    programs.push_back(builder.program());
  }
  FixedCosts costs;
  costs.kernels = {{"work", 1.0_s}, {"slow", 5.0_s}};
  costs.latency = 0.5_s;
  const Timeline timeline = simulate(programs, costs);
  CHECK(timeline.devices[0].tasks[1] == TaskSpan{5.0_s, 5.5_s});
  CHECK(timeline.devices[1].tasks[1] == TaskSpan{5.0_s, 5.5_s});
  CHECK(timeline.devices[2].tasks[1] == TaskSpan{1.0_s, 1.5_s});
}

TEST_CASE("transfers on lanes of their own run beside kernels") {
  ProgramBuilder builder(0);
  const TaskId first = builder.kernel({.name = "work"});
  const TaskId reduce = builder.transfer({.group = device_ids({0})}, "gradients", {}, {first});
  builder.kernel({.name = "work"});
  builder.kernel({.name = "work"}, {}, {reduce});
  FixedCosts costs;
  costs.kernels = {{"work", 1.0_s}};
  costs.latency = 2.5_s;
  // 0 to 1 work, 1 to 3.5 transfer with work until 2 beside it, 3.5 to 4.5 work.
  CHECK(simulate(std::vector{builder.program()}, costs).step == 4.5_s);
}

TEST_CASE("a send and a collective of the same devices are different transfers") {
  std::vector<Program> programs;
  for (std::size_t device = 0; device < 2; ++device) {
    ProgramBuilder builder(device);
    const Transfer move{.kind = device == 0 ? TransferKind::Send : TransferKind::Receive,
                        .group = device_ids({0, 1})};
    const Transfer reduce{.group = device_ids({0, 1})};
    // On lanes of their own the two need not be in the same order everywhere.
    builder.transfer(device == 0 ? move : reduce, device == 0 ? "pair" : "ring");
    builder.transfer(device == 0 ? reduce : move, device == 0 ? "ring" : "pair");
    programs.push_back(builder.program());
  }
  FixedCosts costs;
  costs.latency = 1.0_s;
  CHECK(simulate(programs, costs).step == 1.0_s);
}

TEST_CASE("programs that block each other are named") {
  std::vector<Program> programs;
  for (std::size_t device = 0; device < 2; ++device) {
    ProgramBuilder builder(device);
    const std::vector<std::size_t> out = {device, 1 - device}, in = {1 - device, device};
    // Both send first, in the lane they would receive in.
    builder.transfer({.kind = TransferKind::Send, .group = device_ids(out)}, "network");
    builder.transfer({.kind = TransferKind::Receive, .group = device_ids(in)}, "network");
    programs.push_back(builder.program());
  }
  CHECK_THROWS_AS(simulate(programs, FixedCosts()), std::logic_error);
  CHECK_THROWS_WITH(simulate(programs, FixedCosts()),
                    "device 0, lane network: task 0 can never start: it waits for other members of "
                    "its group");

  ProgramBuilder builder(7);
  builder.program().lanes = {"compute", "other", "ring"};  // the first that cannot go on is named
  builder.transfer({.group = device_ids({7, 8})}, "ring");
  builder.transfer({.group = device_ids({7})}, "other", {}, {TaskId(0)});
  CHECK_THROWS_WITH(simulate(std::vector{builder.program()}, FixedCosts()),
                    "device 7, lane other: task 1 can never start: it waits for task 0");
}

TEST_CASE("memory is held from the first task that has a buffer to the last") {
  ProgramBuilder builder(0);
  const BufferId weight = builder.buffer("weight", 100, Component::Weights, true);
  const BufferId early = builder.buffer("early", 10, Component::Activations);
  const BufferId late = builder.buffer("late", 1, Component::Activations);
  const BufferId moved = builder.buffer("moved", 1000, Component::Transfers);
  builder.buffer("unused", 5000, Component::Workspace);
  builder.kernel({.name = "a"}, {weight, early});
  builder.kernel({.name = "b"}, {early, late});
  const TaskId last = builder.kernel({.name = "c"}, {late});
  builder.transfer({.group = device_ids({0})}, "ring", {moved}, {last});
  FixedCosts costs;
  costs.kernels = {{"a", 1.0_s}, {"b", 2.0_s}, {"c", 3.0_s}};
  costs.latency = 1.0_s;
  const Timeline timeline = simulate(std::vector{builder.program()}, costs);
  // weights, gradients, optimizer, activations, transfers, workspace; 4 bytes an element
  const std::vector<MemorySample> expected = {
      {0.0_s, {400_B, 0_B, 0_B, 40_B, 0_B, 0_B}}, {1.0_s, {400_B, 0_B, 0_B, 44_B, 0_B, 0_B}},
      {3.0_s, {400_B, 0_B, 0_B, 4_B, 0_B, 0_B}},  {6.0_s, {400_B, 0_B, 0_B, 0_B, 4000_B, 0_B}},
      {7.0_s, {400_B, 0_B, 0_B, 0_B, 0_B, 0_B}},
  };
  CHECK(timeline.devices[0].memory == expected);
}

}  // namespace meshwright
