#include "simulator/report/report.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "simulator/engine/simulate.h"
#include "simulator/report/measured_timeline.h"
#include "tests/costmodel/cluster_examples.h"
#include "tests/flat_transfer.h"
#include "tests/simulator/program_builder.h"
#include "tests/simulator/random_programs.h"

namespace meshwright {
namespace {

// Eight devices with 16 GiB and 100 TFLOP/s in fp16, so 50 in fp32.
Cluster node_of_eight() {
  NodeType node = node_of_devices("node", 8);
  node.host = Host{declared(1_GiB), declared(50.0_GBps), declared(std::int64_t{2})};
  return {.name = "node",
          .node_types = {node},
          .nodes = {{0, 1}},
          .network = {links("network", std::nullopt, 10.0_GBps)}};
}

Report play(const std::vector<Program>& programs, const FixedCosts& costs) {
  return summarize(programs, simulate(programs, costs), node_of_eight());
}

Seconds sum(const TimeParts& parts) {
  Seconds all;
  for (const auto& [name, time] : named_parts(parts)) all += time;
  return all;
}

Kernel matmul(std::string name, Phase phase, std::int64_t size) {
  return {.kind = KernelKind::Matmul,
          .phase = phase,
          .operands = {dense_operand({size, size}), dense_operand({size, size}),
                       dense_operand({size, size})},
          .name = std::move(name)};
}

// A device that holds `bytes` of weights and does nothing else.
Program holding(std::size_t device, Bytes bytes) {
  ProgramBuilder builder(device);
  builder.buffer("weights", bytes.value() / 4, Component::Weights, true);
  return builder.program();
}

}  // namespace

TEST_CASE("the bubble of a pipeline is (p - 1) / (m + p - 1) of the step") {
  CHECK(rc::check([] {
    const HandPipeline pipeline = random_pipeline();
    FixedCosts costs;
    costs.kernels = {{"forward", 1.0_s}, {"backward", 2.0_s}};
    const Report report = play(programs_of(pipeline), costs);
    const auto others = static_cast<double>(pipeline.stages) - 1;
    RC_ASSERT(std::abs(report.bubble - others / (pipeline.microbatches + others)) < 1e-12);
  }));
}

TEST_CASE("the parts of every device add up to the step") {
  CHECK(rc::check([] {
    const FixedCosts costs = random_costs();
    const Report report = play(random_run(costs).programs, costs);
    for (const DeviceReport& device : report.devices) {
      RC_ASSERT(std::abs((sum(device.parts) - report.step).value()) <= 1e-9 * report.step.value());
      for (const auto& [name, time] : named_parts(device.parts)) RC_ASSERT(time >= Seconds(0));
    }
  }));
}

TEST_CASE("a moment belongs to the kernel, else to the first transfer under way, else to nobody") {
  ProgramBuilder builder(0);
  FixedCosts costs;
  costs.kernels = {{"forward", 2.0_s}, {"gradient", 1.0_s}, {"step", 3.0_s}};
  costs.latency = 4.0_s;
  const std::vector<DeviceId> alone = device_ids({0});
  const TaskId forward = builder.kernel({.phase = Phase::Forward, .name = "forward"});
  builder.transfer({.purpose = Purpose::Gradients, .group = alone}, "one", {}, {forward});
  const TaskId gradient = builder.kernel({.phase = Phase::WeightGradient, .name = "gradient"});
  const TaskId gather =
      builder.transfer({.purpose = Purpose::Weights, .group = alone}, "other", {}, {gradient});
  builder.kernel({.phase = Phase::Step, .name = "step"}, {}, {gather});
  // compute   forward 0-2, gradient 2-3,                               step 7-10
  // one                    gradients 2-6
  // other                               weights 3-7
  const Report report = play({builder.program()}, costs);
  CHECK(report.step == 10.0_s);
  const std::vector<std::pair<std::string, Seconds>> expected = {
      {"forward", 2.0_s},       {"input_gradient", 0.0_s},     {"weight_gradient", 1.0_s},
      {"optimizer", 3.0_s},     {"gradients_transfer", 3.0_s}, {"weights_transfer", 1.0_s},
      {"recomputation", 0.0_s}, {"dispatch", 0.0_s},           {"idle", 0.0_s}};
  CHECK(named_parts(report.last().parts) == expected);
  CHECK(report.bubble == 0);
}

TEST_CASE("waiting for another device is idle time, the transfer itself is not") {
  std::vector<Program> programs;
  for (std::size_t device = 0; device < 2; ++device) {
    ProgramBuilder builder(device);
    const TaskId work = builder.kernel({.name = device == 0 ? "fast" : "slow"});
    builder.transfer({.group = device_ids({0, 1})}, "ring", {}, {work});
    programs.push_back(builder.program());
  }
  FixedCosts costs;
  costs.kernels = {{"fast", 1.0_s}, {"slow", 4.0_s}};
  costs.latency = 1.0_s;
  const Report report = play(programs, costs);
  CHECK(report.devices[0].parts.idle == 3.0_s);
  CHECK(report.devices[0].parts.transfers.at(Purpose::Tensor) == 1.0_s);
  CHECK(report.devices[1].parts.idle == 0.0_s);
  CHECK(report.bubble == Approx((3.0 + 0.0) / 2 / 5));
  CHECK(report.last_device == 1);  // both finish last; this one computes longer
}

TEST_CASE("utilization counts of attention what its mask shows, and what ran") {
  // Two heads of 8, 4 queries and keys: 32 pairs in the square, 2 x (1 + 2 + 3 + 4) = 20 of them
  // seen, with a window of two keys 2 x (1 + 2 + 2 + 2) = 14.
  const Operand heads = dense_operand({1, 4, 2, 8});
  const auto report_of = [&](AttentionAttributes attributes, std::vector<Operand> kept) {
    Kernel forward{.kind = KernelKind::Attention, .attributes = attributes};
    forward.name = "one second";
    forward.operands = {heads, heads, heads, heads};
    Kernel backward = forward;
    backward.phase = Phase::InputGradient;
    for (const Operand& operand : kept) {
      forward.operands.push_back(operand);
      backward.operands.push_back(operand);
    }
    ProgramBuilder builder(0);
    builder.kernel(forward);
    builder.kernel(backward);
    FixedCosts costs;
    costs.kernels = {{"one second", 1.0_s}};
    return play({builder.program()}, costs);
  };
  const Operand sums = dense_operand({1, 2, 4});
  const double product = 2 * 8;  // of a pair
  const Report causal = report_of({.causal = true}, {sums});
  CHECK(causal.model_flops == 3 * 2 * 20 * product);
  CHECK(causal.full_square_flops == 3 * 2 * 32 * product);
  CHECK(causal.executed_flops == (2 + 5) * 20 * product);
  CHECK(causal.mfu < *causal.mfu_full_square);
  const Report window = report_of({.causal = true, .window = 2}, {sums});
  CHECK(window.model_flops == 3 * 2 * 14 * product);
  const Report open = report_of({.causal = false}, {sums});
  CHECK(open.mfu == open.mfu_full_square);
  // Kept scores are computed whole, and once.
  const Report kept = report_of({.causal = true}, {dense_operand({32})});
  CHECK(kept.model_flops == 3 * 2 * 20 * product);
  CHECK(kept.executed_flops == (2 + 4) * 32 * product);
}

TEST_CASE("utilization counts model FLOPs and executed FLOPs against all peaks") {
  std::vector<Program> programs;
  for (std::size_t device = 0; device < 2; ++device) {
    ProgramBuilder builder(device);
    builder.kernel(matmul("one second", Phase::Forward, 1000));
    builder.kernel(matmul("one second", Phase::InputGradient, 1000));
    builder.program().batch = {.global_batch = 16, .sequence = 1024};
    programs.push_back(builder.program());
  }
  FixedCosts costs;
  costs.kernels = {{"one second", 1.0_s}};
  const Report report = play(programs, costs);
  CHECK(report.step == 2.0_s);
  CHECK(report.peak == 100.0_TFLOPps);
  CHECK(report.model_flops == 3 * 2 * 2e9);     // 2 n^3 forward on two devices
  CHECK(report.executed_flops == 2 * 2 * 2e9);  // forward and one gradient
  CHECK(report.mfu == Approx(12e9 / (2 * 100e12)).epsilon(1e-12));
  CHECK(report.hfu == Approx(8e9 / (2 * 100e12)).epsilon(1e-12));
  CHECK(report.tokens == 16 * 1024);
  CHECK(report.tokens_per_s == 16 * 1024 / 2.0);
}

TEST_CASE("the fullest device decides whether a program fits") {
  // 5 % of 16 GiB are 819.2 MiB.
  const auto [bytes, fit] = GENERATE(table<Bytes, Fit>({
      {15_GiB, Fit::Yes},
      {16_GiB - 820_MiB, Fit::Yes},
      {16_GiB - 819_MiB, Fit::Close},
      {16_GiB, Fit::Close},
      {16_GiB + 4_B, Fit::No},
  }));
  const Report report = play({holding(0, 1_GiB), holding(1, bytes), holding(2, 2_GiB)}, {});
  CHECK(report.fits == fit);
  CHECK(report.fullest_device == 1);
  CHECK(report.fullest().peak == bytes);
  CHECK(report.fullest().capacity == 16_GiB);
}

TEST_CASE("the peak is told with its moment and its components") {
  ProgramBuilder builder(0);
  const BufferId weight = builder.buffer("weight", 100, Component::Weights, true);
  const BufferId activation = builder.buffer("activation", 10, Component::Activations);
  const BufferId gradient = builder.buffer("gradient", 7, Component::Gradients);
  builder.kernel({.name = "second"}, {weight, activation});
  builder.kernel({.name = "second"}, {activation, gradient});
  builder.kernel({.name = "second"}, {gradient});
  FixedCosts costs;
  costs.kernels = {{"second", 1.0_s}};
  const DeviceReport device = play({builder.program()}, costs).fullest();
  CHECK(device.peak == 468_B);
  CHECK(device.by_component == ComponentBytes{400_B, 28_B, 0_B, 40_B, 0_B, 0_B});
  CHECK(device.peak_time == 1.0_s);
}

TEST_CASE("bytes sent equal bytes received") {
  CHECK(rc::check([] {
    const FixedCosts costs = random_costs();
    const Report report = play(random_run(costs).programs, costs);
    double sent = 0, received = 0;
    for (const DeviceReport& device : report.devices) {
      sent += device.sent_bytes;
      received += device.received_bytes;
    }
    RC_ASSERT(std::abs(sent - received) <= 1e-9 * sent);
  }));
  // One cut, 3 microbatches, 4 bytes an element, there and back.
  FixedCosts costs;
  costs.kernels = {{"forward", 1.0_s}, {"backward", 1.0_s}};
  const Report report = play(programs_of({.stages = 2, .microbatches = 3, .sent = 50}), costs);
  CHECK(report.devices[0].sent_bytes == 600);
  CHECK(report.devices[0].received_bytes == 600);
}

TEST_CASE("a broadcast passes along its group") {
  std::vector<Program> programs;
  for (std::size_t device = 0; device < 3; ++device) {
    ProgramBuilder builder(device);
    builder.transfer(flat({.kind = TransferKind::Broadcast, .group = device_ids({0, 1, 2})}, 10),
                     "ring");
    programs.push_back(builder.program());
  }
  const Report report = play(programs, {});
  CHECK(report.devices[0].sent_bytes == 40);
  CHECK(report.devices[0].received_bytes == 0);
  CHECK(report.devices[1].sent_bytes == 40);
  CHECK(report.devices[1].received_bytes == 40);
  CHECK(report.devices[2].sent_bytes == 0);
  CHECK(report.devices[2].received_bytes == 40);
}

TEST_CASE("in a measured timeline a device that waits for another is idle") {
  // Both send one number around; the second one comes 2 s later.
  std::vector<Program> programs;
  for (const std::size_t device : {0, 1}) {
    ProgramBuilder builder(device);
    const BufferId buffer = builder.buffer("x", 1, Component::Activations);
    builder.transfer(flat({.group = device_ids({0, 1})}, 1), "ring", {buffer, buffer});
    programs.push_back(builder.program());
  }
  Timeline measured{.devices = {{.device = DeviceId(0), .tasks = {{1.0_s, 4.0_s}}},
                                {.device = DeviceId(1), .tasks = {{3.0_s, 4.0_s}}}},
                    .step = 4.0_s};
  Timeline timeline = with_waiting_idle(programs, measured);
  CHECK(timeline.devices[0].tasks[0] == TaskSpan{3.0_s, 4.0_s});
  CHECK(timeline.devices[1].tasks[0] == TaskSpan{3.0_s, 4.0_s});
  // One that did not wait has nothing left.
  measured.devices[0].tasks[0].finish = 2.0_s;
  timeline = with_waiting_idle(programs, measured);
  CHECK(timeline.devices[0].tasks[0] == TaskSpan{2.0_s, 2.0_s});
  CHECK(timeline.step == 4.0_s);
}

}  // namespace meshwright
