#include <catch2/catch.hpp>

#include "simulator/engine/simulate.h"
#include "simulator/report/report.h"
#include "tests/costmodel/cluster_examples.h"
#include "tests/simulator/program_builder.h"

namespace meshwright {
namespace {

Cluster node_of_four() {
  return {
      .name = "node", .node_types = {node_of_devices("node", 4)}, .nodes = {{0, 1}}, .network = {}};
}

FixedCosts costs_of(std::map<std::string, Seconds> kernels, Seconds latency = {}) {
  FixedCosts costs;
  costs.kernels = std::move(kernels);
  costs.latency = latency;
  return costs;
}

}  // namespace

TEST_CASE("a kernel is slower while a collective of its device is under way") {
  std::vector<Program> programs;
  for (std::size_t device = 0; device < 2; ++device) {
    ProgramBuilder builder(device);
    builder.transfer({.group = device_ids({0, 1})}, "ring");
    builder.kernel({.name = "work"});
    programs.push_back(builder.program());
  }
  const FixedCosts costs = costs_of({{"work", 1.0_s}}, 0.5_s);
  const EngineOptions options{.slow_down_inside_node = 1.25, .slow_down_across_nodes = 7};
  const Timeline timeline = simulate(programs, costs, node_of_four(), options);
  // 0.5 s at 1/1.25 is 0.4 s of work; 0.6 s are left.
  CHECK(timeline.devices[0].tasks[1].finish.value() == Approx(1.1).epsilon(1e-12));
  // All kernels of other lanes and those after the collective take their own time.
  ProgramBuilder alone(0);
  alone.transfer({.group = device_ids({0, 1})}, "ring");
  alone.kernel({.name = "work"}, {}, {}, {}, "copy");
  programs[0] = alone.program();
  CHECK(simulate(programs, costs, node_of_four(), options).devices[0].tasks[1] ==
        TaskSpan{0.0_s, 1.0_s});
}

TEST_CASE("a send slows no kernel") {
  std::vector<Program> programs;
  for (std::size_t device = 0; device < 2; ++device) {
    ProgramBuilder builder(device);
    builder.transfer({.kind = device == 0 ? TransferKind::Send : TransferKind::Receive,
                      .group = device_ids({0, 1})},
                     "pair");
    builder.kernel({.name = "work"});
    programs.push_back(builder.program());
  }
  const Timeline timeline = simulate(programs, costs_of({{"work", 1.0_s}}, 0.5_s), node_of_four(),
                                     {.slow_down_inside_node = 2});
  CHECK(timeline.devices[0].tasks[1] == TaskSpan{0.0_s, 1.0_s});
}

TEST_CASE("the step is as long as the device's chain or the host's, whichever is longer") {
  ProgramBuilder builder(0);
  for (int i = 0; i < 10; ++i) builder.kernel({.name = "work"});
  const std::vector<Program> programs = {builder.program()};
  const FixedCosts costs = costs_of({{"work", 0.5_s}});
  const auto step = [&](Seconds dispatch) {
    return simulate(programs, costs, node_of_four(), {.dispatch = dispatch}).step;
  };
  CHECK(step(0.0_s) == 5.0_s);
  CHECK(step(0.25_s) == 5.25_s);  // the first launch, then the device is never short of work
  CHECK(step(2.0_s) == 20.5_s);   // ten launches and the last kernel
  // Repeated steps: the host goes on at once.
  CHECK(simulate(programs, costs, node_of_four(), {.dispatch = 2.0_s, .repeat = true}).step ==
        20.0_s);
  CHECK(simulate(programs, costs, node_of_four(), {.dispatch = 0.25_s, .repeat = true}).step ==
        5.0_s);

  const Timeline late = simulate(programs, costs, node_of_four(), {.dispatch = 2.0_s});
  const Report report = summarize(programs, late, node_of_four());
  CHECK(report.last().parts.dispatch.value() == Approx(15.5));  // 20.5 s less ten kernels
  CHECK(report.last().parts.idle.value() == Approx(0).margin(1e-12));
  CHECK(report.bubble == Approx(0).margin(1e-12));
}

TEST_CASE(
    "a task of several launches is begun after all of them, one of none with the one before") {
  class Launches : public FixedCosts {
   public:
    Price kernel(const Kernel& kernel, Precision precision, DeviceId device) const override {
      Price price = FixedCosts::kernel(kernel, precision, device);
      price.launches = kernel.name == "parts" ? 3 : kernel.name == "fused" ? 0 : 1;
      return price;
    }
  };
  ProgramBuilder builder(0);
  for (const std::string name : {"plain", "parts", "fused", "plain"})
    builder.kernel({.name = name});
  const std::vector<Program> programs = {builder.program()};
  Launches costs;
  costs.kernels = {{"plain", 0.5_s}, {"parts", 0.5_s}, {"fused", 0.5_s}};
  const EngineOptions options{.dispatch = 1.0_s};
  const auto tasks = simulate(programs, costs, node_of_four(), options).devices[0].tasks;
  // Launched after 1, 4, 4 and 5 s.
  CHECK(tasks[1] == TaskSpan{4.0_s, 4.5_s});
  CHECK(tasks[2] == TaskSpan{4.5_s, 5.0_s});
  CHECK(tasks[3] == TaskSpan{5.0_s, 5.5_s});
  // Repeated: five launches a step.
  CHECK(simulate(programs, costs, node_of_four(), {.dispatch = 1.0_s, .repeat = true}).step ==
        5.0_s);
}

TEST_CASE("a host that waits for what it receives launches the rest after it") {
  // Launching takes 1 s, kernels 1 s and 0.1 s, the transfer 0.5 s.
  ProgramBuilder first(0), second(1);
  first.kernel({.name = "long"});
  const auto passes = [](TransferKind kind) {
    return Transfer{.kind = kind, .purpose = Purpose::Pipeline, .group = device_ids({0, 1})};
  };
  first.transfer(passes(TransferKind::Send), "to 1", {}, {TaskId(0)});
  second.transfer(passes(TransferKind::Receive), "from 0");
  second.kernel({.name = "short"}, {}, {TaskId(0)});
  second.kernel({.name = "short"}, {}, {});
  const std::vector<Program> programs = {first.program(), second.program()};
  const FixedCosts costs = costs_of({{"long", 1.0_s}, {"short", 0.1_s}}, 0.5_s);
  for (const bool shared : {false, true}) {
    EngineOptions options{.share_links = shared, .dispatch = 1.0_s};
    const auto ends = [&] {
      const Timeline timeline = simulate(programs, costs, node_of_four(), options);
      const auto& tasks = timeline.devices[1].tasks;
      return std::vector{tasks[0].finish.value(), tasks[1].finish.value(), tasks[2].finish.value()};
    };
    // The long kernel runs from 1 to 2 s, the transfer up to 2.5 s. The short kernels have been
    // launched after 2 and 3 s, or 1 and 2 s after the transfer.
    CHECK_THAT(ends(), Catch::Approx(std::vector{2.5, 2.6, 3.1}));
    options.host_waits = true;
    CHECK_THAT(ends(), Catch::Approx(std::vector{2.5, 3.6, 4.6}));
    // Repeated, the second host goes on launching where the step ends: its step takes as long as
    // from one transfer to the next, two launches and its own.
    options.repeat = true;
    CHECK(simulate(programs, costs, node_of_four(), options).step.value() == Approx(3.5));
  }
}

TEST_CASE("a repeated step counts what runs beside the next one once") {
  // a reads one weight, b another, which is gathered after b.
  ProgramBuilder builder(0);
  const BufferId first = builder.buffer("first", 1, Component::Weights, true);
  const BufferId second = builder.buffer("second", 1, Component::Weights, true);
  builder.kernel({.operands = {{}}, .name = "a"}, {first});
  const TaskId b = builder.kernel({.operands = {{}}, .name = "b"}, {second});
  builder.transfer({.group = device_ids({0})}, "ring", {second, second}, {b});
  const std::vector<Program> programs = {builder.program()};
  const FixedCosts costs = costs_of({{"a", 1.0_s}, {"b", 1.0_s}}, 1.5_s);
  // Once: a 0-1, b 1-2, gather 2-3.5. Then a 2-3 beside it, b 3.5-4.5, gather 4.5-6.
  CHECK(simulate(programs, costs).step == 3.5_s);
  const Timeline timeline = simulate(programs, costs, node_of_four(), {.repeat = true});
  CHECK(timeline.step == 2.5_s);
  CHECK(timeline.devices[0].tasks ==
        std::vector<TaskSpan>{{0.0_s, 1.0_s}, {1.5_s, 2.5_s}, {2.5_s, 4.0_s}});
  // Of the 2.5 s two are kernels; the gather shows for half a second.
  const TimeParts parts = summarize(programs, timeline, node_of_four()).last().parts;
  CHECK(parts.kernels.at(Phase::Forward) == 2.0_s);
  CHECK(parts.transfers.at(Purpose::Tensor) == 0.5_s);
  CHECK(parts.idle == 0.0_s);
}

TEST_CASE("a repeated step is as long as the slowest circle in it, also one that ends early") {
  // a reads a weight that a transfer writes after it; z ends last but waits for nobody's last step.
  ProgramBuilder builder(0);
  const BufferId weight = builder.buffer("weight", 1, Component::Weights, true);
  const TaskId a = builder.kernel({.operands = {{}}, .name = "a"}, {weight});
  builder.transfer({.group = device_ids({0})}, "ring", {weight, weight}, {a});
  const TaskId y = builder.kernel({.name = "y"}, {}, {}, {}, "y");
  builder.kernel({.name = "z"}, {}, {y}, {}, "z");
  const std::vector<Program> programs = {builder.program()};
  const FixedCosts costs = costs_of({{"a", 1.0_s}, {"y", 5.0_s}, {"z", 4.0_s}}, 4.5_s);
  // a and its transfer 0-1-5.5, then 5.5-6.5-11; y and z 0-5-9, then 5-10-14: z is 5 s later, and
  // would be 5.5 s later each time once the circle has caught up.
  CHECK(simulate(programs, costs, node_of_four(), {.repeat = true}).step == 5.5_s);
}

TEST_CASE("what is recomputed is told apart, and does not count as the model's work") {
  ProgramBuilder builder(0);
  const Kernel matmul{
      .kind = KernelKind::Matmul,
      .operands = {dense_operand({100, 100}), dense_operand({100, 100}), dense_operand({100, 100})},
      .name = "work"};
  builder.kernel(matmul);
  builder.kernel(matmul);
  builder.program().tasks[1].recompute = true;
  const std::vector<Program> programs = {builder.program()};
  const FixedCosts costs = costs_of({{"work", 1.0_s}});
  const Report report = summarize(programs, simulate(programs, costs), node_of_four());
  CHECK(report.last().parts.kernels.at(Phase::Forward) == 1.0_s);
  CHECK(report.last().parts.recomputation == 1.0_s);
  CHECK(report.model_flops == 3 * 2e6);
  CHECK(report.executed_flops == 2 * 2e6);
}

TEST_CASE("memory that outlives the step is there at the start of the next") {
  ProgramBuilder builder(0);
  const BufferId weight = builder.buffer("weight", 1, Component::Weights, true);
  const BufferId moved = builder.buffer("moved", 10, Component::Transfers);
  const TaskId work = builder.kernel({.operands = {{}}, .name = "a"}, {weight});
  builder.transfer({.group = device_ids({0})}, "ring", {moved}, {work});
  const std::vector<Program> programs = {builder.program()};
  const Timeline timeline =
      simulate(programs, costs_of({{"a", 1.0_s}}, 0.5_s), node_of_four(), {.repeat = true});
  // The transfer 1-1.5 runs beside the next kernel 1-2: the step is 1 s.
  REQUIRE(timeline.step == 1.0_s);
  const std::vector<MemorySample> expected = {{0.0_s, {4_B, 0_B, 0_B, 0_B, 40_B, 0_B}},
                                              {0.5_s, {4_B, 0_B, 0_B, 0_B, 0_B, 0_B}}};
  CHECK(timeline.devices[0].memory == expected);
}

}  // namespace meshwright
