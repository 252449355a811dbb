#include "simulator/lowering/offload.h"

#include <catch2/catch.hpp>

#include "costmodel/base/input_error.h"
#include "simulator/engine/simulate.h"
#include "simulator/lowering/lower.h"
#include "simulator/plan/plan_file.h"
#include "simulator/program/check_program.h"
#include "simulator/report/report.h"
#include "tests/simulator/small_plans.h"
#include "tests/user_costs.h"

namespace meshwright {
namespace {

constexpr std::int64_t kSequence = 8, kHidden = 24, kHeads = 4;
constexpr Bytes kTensor{8 * kSequence * kHidden};  // of a row in fp64
constexpr auto kOptimizer = static_cast<std::size_t>(Component::Optimizer);

// A layer takes `forward` and `backward`, which are counted in its attention, the copy of a tensor
// `copy`, the gradient of the loss `loss`; all else takes nothing.
class LayerTimes : public CostModel {
 public:
  LayerTimes(double forward, double backward, double copy, double loss = 0)
      : forward_(forward), backward_(backward), copy_(copy), loss_(loss) {}
  Price kernel(const Kernel& kernel, Precision, DeviceId) const override {
    const bool forward = kernel.phase == Phase::Forward;
    if (kernel.kind == KernelKind::Loss && !forward) return {.time = Seconds(loss_)};
    if (kernel.kind != KernelKind::Attention) return {};
    return {.time = Seconds(forward ? forward_ : backward_)};
  }
  Price transfer(const Transfer&, Precision) const override { return {}; }
  Price host_copy(const HostCopy& copy, Precision precision, DeviceId) const override {
    return {.time = Seconds(bytes_of(copy, precision) / kTensor * copy_)};
  }

 private:
  double forward_, backward_, copy_, loss_;
};

// With so many words that the loss needs the most memory.
Model four_layers() {
  return small_gpt({.hidden = kHidden,
                    .layers = 4,
                    .heads = kHeads,
                    .vocabulary = 2000,
                    .dropout = 0,
                    .tied = false});
}

std::vector<Program> lowered(const std::string& choices, std::int64_t batch = 1) {
  const Model model = four_layers();
  const Plan plan = small_plan(choices, model, batch, kSequence);
  CHECK(check_plan(plan, model, test_cluster()) == std::vector<std::string>{});
  auto programs = lower_all(model, plan);
  CHECK(check_programs(programs) == std::vector<std::string>{});
  return programs;
}

Bytes most(const DeviceTimeline& device) {
  Bytes peak;
  for (const MemorySample& sample : device.memory) peak = std::max(peak, total(sample.bytes));
  return peak;
}

// The place in the list of the first task of this kind and name that a test is true for.
template <class Test>
std::size_t place_of(const Program& program, Test test) {
  const auto found = std::ranges::find_if(program.tasks, test);
  REQUIRE(found != program.tasks.end());
  return static_cast<std::size_t>(found - program.tasks.begin());
}

bool comes_back(const Program& program, const Task& task, const std::string& name) {
  return task.kind == TaskKind::Copy && program.copy(task).direction == CopyDirection::FromHost &&
         program.buffers[program.operands_of(task)[0].index()].name == name;
}

}  // namespace

TEST_CASE("the peak drops by exactly what layers keep, but for the last of them") {
  const LayerTimes costs(1, 2, 0.001, 1);
  const auto peak = [&](const std::string& choices) {
    return most(simulate(lowered(choices), costs).devices[0]);
  };
  // With full recomputation a layer keeps its input.
  CHECK((peak("recompute=full") - peak("recompute=full,offload=activations")).value() ==
        (kTensor * 3).value());
  // Without: inputs of the two norms and of three of the four products, the query, key and value,
  // and of the feed-forward part, four times as wide, what goes into the activation and the fourth
  // product; besides, of each row, mean and scale of each norm and a number for each head.
  const Bytes layer = kTensor * (2 + 3 + 3 + 2 * 4) + 8_B * (kSequence * (2 * 2 + kHeads));
  CHECK((peak("recompute=none") - peak("offload=activations")).value() == (layer * 3).value());
  for (const std::int64_t layers : {1, 2, 3, 4}) {
    CAPTURE(layers);
    const Bytes less =
        peak("recompute=none") - peak("offload=activations:" + std::to_string(layers));
    CHECK(less.value() == (layer * std::min<std::int64_t>(layers, 3)).value());
  }
}

TEST_CASE("what is away is on the host") {
  const Timeline timeline =
      simulate(lowered("recompute=full,offload=activations"), LayerTimes(1, 2, 0.001));
  CHECK(timeline.devices[0].host_peak == kTensor * 3);
}

TEST_CASE("copies that are shorter than layers are hidden") {
  // Four forwards, then four times forward again and backward.
  const Seconds step(4 * 1 + 4 * (1 + 2));
  CHECK(simulate(lowered("recompute=full"), LayerTimes(1, 2, 1)).step == step);
  CHECK(simulate(lowered("recompute=full,offload=activations"), LayerTimes(1, 2, 1)).step == step);
}

TEST_CASE("the host link is the limit where copies are longer than layers") {
  // The input of layer 0 goes out as soon as it is there, at 0, those of layers 1 and 2 behind it;
  // they come back one after the other, the last for layer 0, which then runs once more and back.
  const double copy = 10;
  const auto programs = lowered("recompute=full,offload=activations");
  CHECK(simulate(programs, LayerTimes(1, 2, copy)).step.value() == 3 * copy + 3 * copy + (1 + 2));
}

TEST_CASE("tensors come back when the backward reaches the layer behind") {
  const auto programs = lowered("recompute=full,offload=activations");
  const Timeline timeline = simulate(programs, LayerTimes(1, 2, 0.5));
  const Program& program = programs[0];
  const auto start = [&](const std::string& name) {
    return timeline.devices[0]
        .tasks[place_of(program, [&](const Task& t) { return comes_back(program, t, name); })]
        .start;
  };
  // The backward starts at 4, and layer 2's at 7. The first layer's input comes from the embedding.
  const Model model = four_layers();
  const Plan plan = small_plan("recompute=full,offload=activations", model, 1, kSequence);
  REQUIRE(plan.offload.size() == 3);
  CHECK(start(plan.offload[2].tensors.at(0)) == Seconds(4));
  CHECK(start(plan.offload[1].tensors.at(0)) == Seconds(7));
  CHECK(start(plan.offload[0].tensors.at(0)) == Seconds(10));
}

TEST_CASE("the last layer's tensors come back before the entry ahead of the chunk's backward") {
  const auto programs = lowered("pp=2,recompute=full,offload=activations", 4);
  const Program& program = programs[0];
  const Model model = four_layers();
  const Plan plan = small_plan("pp=2,recompute=full,offload=activations", model, 4, kSequence);
  // The second stage turns at once: it keeps the input of its last layer.
  REQUIRE(plan.offload.size() == 3);
  CHECK(plan.offload[1].early);
  CHECK_FALSE(plan.offload[0].early);
  // The order is F0 F1 B0 F2 B1 F3 B2 B3: micro-batch 0 comes back before forward 1, the next one
  // before forward 2, and micro-batch 3 before backward 2.
  const auto back = [&](std::int32_t m) {
    return place_of(program, [&](const Task& task) {
      return task.microbatch == m && comes_back(program, task, plan.offload[1].tensors.at(0));
    });
  };
  const auto attention = [&](std::int32_t m, Phase phase) {
    return place_of(program, [&](const Task& task) {
      return task.microbatch == m && task.kind == TaskKind::Kernel && !task.recompute &&
             program.kernel(task).kind == KernelKind::Attention &&
             program.kernel(task).phase == phase;
    });
  };
  for (std::int32_t m = 0; m < 3; ++m) {
    CHECK(back(m) < attention(m + 1, Phase::Forward));
    CHECK(back(m) > attention(m, Phase::Forward));
    if (m > 0) CHECK(back(m) > attention(m - 1, Phase::InputGradient));
  }
  CHECK(back(3) > attention(3, Phase::Forward));
  CHECK(back(3) < attention(2, Phase::InputGradient));
}

TEST_CASE("a forward waits for what stood before the one ahead of it") {
  const double copy = 10;
  const auto programs = lowered("schedule=gpipe,recompute=full,offload=activations", 4);
  const Timeline timeline = simulate(programs, LayerTimes(1, 2, copy));
  const auto start = [&](std::int32_t microbatch) {
    const std::size_t first = place_of(programs[0], [&](const Task& task) {
      return task.kind == TaskKind::Kernel && task.microbatch == microbatch;
    });
    return timeline.devices[0].tasks[first].start;
  };
  // Inputs of four layers go out, of one micro-batch after the other.
  CHECK(start(1) == Seconds(4));
  CHECK(start(2) == Seconds(4 * copy));
  CHECK(start(3) == Seconds(8 * copy));
}

TEST_CASE("the optimizer's state is on the device only around the updates") {
  const std::int64_t parameters = count_parameters(four_layers()).total;
  const auto plain = lowered("microbatch=1"), away = lowered("offload=optimizer");
  const LayerTimes costs(1, 2, 1);
  const Timeline before = simulate(plain, costs), timeline = simulate(away, costs);
  const Bytes state = 8_B * (2 * parameters);
  CHECK(before.devices[0].memory.front().bytes[kOptimizer] == state);
  CHECK(timeline.devices[0].memory.front().bytes[kOptimizer] == 0_B);
  CHECK(timeline.devices[0].memory.back().bytes[kOptimizer] == 0_B);
  CHECK(timeline.devices[0].host_peak == state);
  CHECK(total(before.devices[0].memory.front().bytes) -
            total(timeline.devices[0].memory.front().bytes) ==
        state);
  // It all comes, and it all goes.
  CHECK(timeline.step.value() - before.step.value() ==
        Approx(2 * (state / kTensor)).epsilon(1e-12));
}

TEST_CASE("state of one bucket comes while another goes") {
  // Buckets of one weight each: copies to and from the host go side by side, but for the first
  // that comes and the last that goes.
  const auto programs = lowered("offload=optimizer,bucket=1 B");
  const Timeline timeline = simulate(programs, LayerTimes(0, 0, 1));
  Seconds in, out, last_out;
  for (std::size_t t = 0; t < programs[0].tasks.size(); ++t) {
    const Task& task = programs[0].tasks[t];
    if (task.kind != TaskKind::Copy) continue;
    const TaskSpan span = timeline.devices[0].tasks[t];
    const bool from = programs[0].copy(task).direction == CopyDirection::FromHost;
    (from ? in : out) += span.finish - span.start;
    if (!from) last_out = span.finish;
  }
  CHECK(in == out);
  CHECK(timeline.step == last_out);
  CHECK(timeline.step > in);
  CHECK(timeline.step < in * 2.0);
}

TEST_CASE("a plan with offload survives save and load") {
  const Model model = four_layers();
  const Plan plan = small_plan("pp=2,offload=activations+optimizer", model, 4, kSequence);
  CHECK(plan.offload_optimizer);
  CHECK_FALSE(plan.offload.empty());
  CHECK(read_plan(JsonInput::parse(plan_text(plan, model.dims), "plan"), model.dims) == plan);
}

TEST_CASE("what cannot be on the host is refused in words") {
  const Model model = four_layers();
  const Plan plan = small_plan("pp=2,offload=activations", model, 4, kSequence);
  const auto problems = [&](auto change) {
    Plan changed = plan;
    change(changed);
    return check_plan(changed, model, test_cluster());
  };
  CHECK(problems([](Plan& p) { p.offload[0].tensors.push_back("nothing"); }) ==
        std::vector<std::string>{"offload: chunk 0 keeps no nothing for its backward"});
  CHECK(problems([](Plan& p) { p.offload[0].tensors.push_back(p.offload[1].tensors[0]); }) ==
        std::vector<std::string>{"offload: " + plan.offload[1].tensors[0] + " stands twice"});
  CHECK(problems([](Plan& p) { p.offload[0].back = 0; }) ==
        std::vector<std::string>{"offload: back at op 0, expected 1 to " +
                                 std::to_string(plan.chunks[1].end_op)});

  Cluster hostless = test_cluster();
  hostless.node_types[0].host.reset();
  const UserCosts costs(hostless);
  for (const std::string choices : {"offload=activations", "offload=optimizer"}) {
    const Plan refused = resolve(parse_plan_choices(choices), {4, kSequence, Precision::FP64},
                                 model, hostless, costs);
    CHECK(check_plan(refused, model, hostless) ==
          std::vector<std::string>{"offload: the node of device 0 has no host to copy to"});
  }
  CHECK_THROWS_WITH(parse_plan_choices("offload=disk"),
                    "plan: offload: expected none, activations, activations:LAYERS, optimizer or "
                    "activations+optimizer, found \"disk\"");
  CHECK_THROWS_WITH(parse_plan_choices("offload=activations:0"),
                    "plan: offload: expected a whole number from 1 to 1048576, found \"0\"");
  for (const std::string text : {"activations:2", "activations:2+optimizer", "optimizer"}) {
    CHECK(offload_text(parse_plan_choices("offload=" + text)) == text);
  }
  CHECK(parse_plan_choices("offload=none") == PlanChoices{});
}

TEST_CASE("what resolve cannot lower it leaves to check_plan") {
  const Model model = four_layers();
  const Plan plan = resolve(parse_plan_choices("offload=activations"), {4, 1000, Precision::FP64},
                            model, test_cluster(), UserCosts(test_cluster()));
  CHECK(check_plan(plan, model, test_cluster()) ==
        std::vector<std::string>{"a sequence of 1000: the model has positions for 16"});
}

}  // namespace meshwright
