#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <iostream>

#include "simulator/classes/represent.h"
#include "simulator/engine/critical_path.h"
#include "simulator/engine/simulate.h"
#include "simulator/report/report.h"
#include "tests/simulator/random_choices.h"
#include "tests/simulator/random_clusters.h"
#include "tests/simulator/random_programs.h"
#include "tests/simulator/small_plans.h"
#include "tests/test_scale.h"
#include "tests/user_costs.h"

namespace meshwright {
namespace {

// Five devices of their own nodes.
Cluster five_nodes(double bandwidth = 10) {
  NodeType node = node_of_devices("node", 1);
  node.host = Host{declared(1_GiB), declared(BytesPerSecond(bandwidth)), declared(std::int64_t{1})};
  return {.name = "five",
          .node_types = {node},
          .nodes = {{0, 5}},
          .network = {links("network", std::nullopt, BytesPerSecond(bandwidth))}};
}

EngineOptions everything_shared() {
  return {.share_links = true, .slow_down_inside_node = 1.25, .slow_down_across_nodes = 1.5};
}

Cluster with_bandwidth(Cluster cluster, double factor) {
  for (NodeType& type : cluster.node_types) {
    if (type.host) type.host->bandwidth.value = type.host->bandwidth.value * factor;
    for (LinkLevel& level : type.levels) level.bandwidth.value = level.bandwidth.value * factor;
    for (auto& [name, bandwidth] : type.network_bandwidth)
      bandwidth.value = bandwidth.value * factor;
  }
  for (LinkLevel& level : cluster.network) level.bandwidth.value = level.bandwidth.value * factor;
  for (DeviceException& exception : cluster.exceptions) {
    for (auto& [name, bandwidth] : exception.bandwidth) bandwidth = bandwidth * factor;
  }
  return cluster;
}

struct RandomPlan {
  std::string text;
  Model model;
  Cluster cluster;
  Plan plan;
};

RandomPlan random_plan() {
  RandomChoices choices = random_choices();
  choices.text += *rc::gen::element<std::string>("", ",offload=activations", ",offload=optimizer");
  const PlanChoices parsed = parse_plan_choices(choices.text);
  RandomPlan random{.text = choices.text,
                    .model = small_gpt({.hidden = 64, .dropout = 0}),
                    .cluster = random_cluster(device_count(parsed))};
  const BatchChoice batch{choices.global_batch, 16, Precision::FP32};
  RC_PRE(check_choices(parsed, batch, random.model, random.cluster).empty());
  random.plan = resolve(parsed, batch, random.model, random.cluster, UserCosts(random.cluster));
  return random;
}

Seconds step_of(const RandomPlan& random, const Cluster& cluster, const EngineOptions& options) {
  return simulate(represent(random.model, random.plan, cluster).scene, UserCosts(cluster), options)
      .step;
}

// Lowering plans takes time: a fifth of the cases unless all are asked for.
bool is_skipped() { return *rc::gen::inRange(0, one_in(5)) != 0; }

// Nothing but kernels that take time by what they write; transfers and the optimizer are free.
class WorkOnly : public CostModel {
 public:
  Price kernel(const Kernel& kernel, Precision, DeviceId) const override {
    if (kernel.phase == Phase::Step || kernel.kind == KernelKind::Sum) return {};
    double elements = 0;
    for (const Operand& operand : kernel.operands) {
      if (operand.written) elements += static_cast<double>(element_count(operand));
    }
    return {.time = Seconds(elements / 1024)};
  }
  Price transfer(const Transfer&, Precision) const override { return {}; }
};

}  // namespace

TEST_CASE("where nothing meets, events give the times that need no events, to the bit") {
  CHECK(rc::check([] {
    const FixedCosts costs = random_costs();
    const RandomRun run = random_run(costs);
    // Links so wide that nobody notices the others.
    const Cluster cluster = five_nodes(1e15);
    const Timeline events = simulate(run.programs, costs, cluster, {.share_links = true});
    RC_ASSERT(events == simulate(run.programs, costs));
  }));
}

TEST_CASE("with sharing and slow-down lanes do not overlap, waits hold, and nothing is faster") {
  CHECK(rc::check([] {
    const FixedCosts costs = random_costs();
    const RandomRun run = random_run(costs);
    const Timeline timeline = simulate(run.programs, costs, five_nodes(), everything_shared());
    for (std::size_t d = 0; d < run.programs.size(); ++d) {
      const Program& program = run.programs[d];
      const auto& spans = timeline.devices[d].tasks;
      std::map<LaneId, Seconds> free;
      for (std::size_t i = 0; i < spans.size(); ++i) {
        const Task& task = program.tasks[i];
        RC_ASSERT(spans[i].start >= free[task.lane]);
        free[task.lane] = spans[i].finish;
        for (const TaskId wait : program.waits_of(task)) {
          RC_ASSERT(spans[i].start >= spans[wait.index()].finish);
        }
        const Seconds alone = run.expected[d][i].finish - run.expected[d][i].start;
        RC_ASSERT(spans[i].finish - spans[i].start >= alone * (1 - 1e-9));
      }
    }
  }));
}

TEST_CASE("repeated, the order of programs changes nothing and the parts add up to the step") {
  CHECK(rc::check([] {
    const FixedCosts costs = random_costs();
    RandomRun run = random_run(costs);
    EngineOptions options = everything_shared();
    options.repeat = true;
    options.dispatch = Seconds(*rc::gen::inRange(0, 3) * 0.05);
    options.host_waits = *rc::gen::arbitrary<bool>();
    Timeline timeline = simulate(run.programs, costs, five_nodes(), options);
    const Report report = summarize(run.programs, timeline, five_nodes());
    for (const DeviceReport& device : report.devices) {
      Seconds sum;
      for (const auto& [name, time] : named_parts(device.parts)) {
        RC_ASSERT(time >= Seconds(-1e-9));
        sum += time;
      }
      RC_ASSERT(std::abs((sum - report.step).value()) <= 1e-9 * (1 + report.step.value()));
    }
    std::ranges::reverse(run.programs);
    std::ranges::reverse(timeline.devices);
    RC_ASSERT(simulate(run.programs, costs, five_nodes(), options) == timeline);
  }));
}

TEST_CASE("a chain of tasks without a gap leads from the start of the step to its end") {
  CHECK(rc::check([] {
    const FixedCosts costs = random_costs();
    const RandomRun run = random_run(costs);
    const Scene scene = scene_of(run.programs, five_nodes());
    const bool shared = *rc::gen::arbitrary<bool>();
    const Timeline timeline =
        simulate(scene, costs, shared ? everything_shared() : EngineOptions{});
    const auto path = critical_path(scene, timeline);
    Seconds reached;
    for (const PathTask& task : path) {
      const TaskSpan& span = timeline.devices[task.program].tasks[task.task];
      RC_ASSERT(span.start == reached);
      reached = span.finish;
    }
    RC_ASSERT(reached == timeline.step);
  }));
}

TEST_CASE("more bandwidth is never slower alone, and at most one percent with sharing") {
  double worst = 0;
  std::string worst_plan = "none";
  const auto law = [&] {
    if (is_skipped()) return;
    const RandomPlan random = random_plan();
    // So slow that transfers matter beside kernels of a small model.
    const Cluster slow = with_bandwidth(random.cluster, 0.01);
    const Cluster fast = with_bandwidth(slow, *rc::gen::element(1.1, 2.0, 10.0));
    const EngineOptions alone{.repeat = *rc::gen::arbitrary<bool>()};
    RC_ASSERT(step_of(random, fast, alone) <= step_of(random, slow, alone));
    const Seconds before = step_of(random, slow, everything_shared());
    const Seconds after = step_of(random, fast, everything_shared());
    if (after / before - 1 > worst) {
      worst = after / before - 1;
      worst_plan = random.text;
    }
    RC_ASSERT(after / before <= 1.01);
  };
  for (int i = 0; i < cases(1, 20); ++i) CHECK(rc::check(law));
  std::cout << "with sharing, the largest loss by more bandwidth: " << 100 * worst << " %, by "
            << worst_plan << "\n";
}

TEST_CASE("the same work on twice the devices without transfers takes half the time") {
  const Model model = small_gpt({.layers = 4, .dropout = 0});
  const auto step = [&](std::int64_t dp) {
    const Plan plan = small_plan("microbatch=1,dp=" + std::to_string(dp), model, 16);
    const Represented represented = represent(model, plan, test_cluster());
    return simulate(represented.scene, WorkOnly()).step;
  };
  const Seconds one = step(1);
  CHECK(one > 0.0_s);
  for (const std::int64_t dp : {2, 4, 8, 16}) CHECK(step(dp) * static_cast<double>(dp) == one);
}

TEST_CASE("all devices of a plan together send what they receive") {
  CHECK(rc::check([] {
    if (is_skipped()) return;
    const RandomPlan random = random_plan();
    const Represented represented = represent(random.model, random.plan, random.cluster);
    const UserCosts costs(random.cluster);
    const Report report =
        summarize(represented.programs, simulate(represented.scene, costs, kFullEngine),
                  random.cluster, {}, represented.classes);
    double sent = 0, received = 0;
    for (const DeviceReport& device : report.devices) {
      sent += device.sent_bytes * static_cast<double>(device.count);
      received += device.received_bytes * static_cast<double>(device.count);
    }
    RC_ASSERT(std::abs(sent - received) <= 1e-9 * sent);
  }));
}

}  // namespace meshwright
