#include <algorithm>
#include <catch2/catch.hpp>

#include "simulator/lowering/lower.h"
#include "simulator/lowering/pipeline_order.h"
#include "simulator/lowering/placement.h"
#include "simulator/lowering/planned_graph.h"
#include "simulator/lowering/program_writer.h"
#include "simulator/lowering/step_end.h"
#include "simulator/lowering/weight_buckets.h"
#include "tests/flat_transfer.h"
#include "tests/simulator/small_plans.h"

// Each pass of lowering by itself.
namespace meshwright {
namespace {

std::vector<DeviceId> devices(std::initializer_list<std::size_t> numbers) {
  std::vector<DeviceId> ids;
  for (const std::size_t number : numbers) ids.push_back(DeviceId(number));
  return ids;
}

std::size_t op_named(const PlannedGraph& planned, const std::string& name) {
  for (std::size_t i = 0; i < planned.graph.ops.size(); ++i) {
    if (planned.graph.ops[i].name == name) return i;
  }
  FAIL(name);
  return 0;
}

}  // namespace

TEST_CASE("parts cover a length once, the first ones being larger") {
  for (const std::int64_t length : {1, 7, 12, 50257}) {
    for (const std::int64_t parts : {1, 2, 3, 7}) {
      std::int64_t next = 0;
      for (std::int64_t part = 0; part < parts; ++part) {
        const ShardRange share = part_of({0, length}, parts, part);
        CHECK(share.start == next);
        CHECK((share.size == length / parts || share.size == length / parts + 1));
        next += share.size;
      }
      CHECK(next == length);
    }
  }
  CHECK(part_of({0, 10}, 4, 0).size == 3);
  CHECK(part_of({0, 10}, 4, 3).size == 2);
}

// dp=2, tp=2, pp=2: devices 0-3 are the first stage; tensor-parallel neighbours are adjacent.
TEST_CASE("devices have their place in the mesh") {
  const Plan plan = small_plan("dp=2,tp=2,pp=2,microbatch=1", small_gpt(), 4);
  const Placement placement(plan, DeviceId(6));
  CHECK(placement.slot() == 1);
  const AxisId dp(0), tp(1);
  CHECK(placement.coordinates() == std::vector<std::int64_t>{1, 0});
  CHECK(placement.group({tp}) == devices({6, 7}));
  CHECK(placement.group({dp}) == devices({4, 6}));
  CHECK(placement.group({tp, dp}) == devices({4, 6, 5, 7}));
  CHECK(placement.index_along({tp, dp}) == 1);
  CHECK(placement.peer(0) == DeviceId(2));
}

TEST_CASE("ops are split as the plan says and tensors as their producers leave them") {
  const Model model = small_gpt();  // hidden 24, 4 heads of 6, ffn 96, vocabulary 37
  const Plan plan = small_plan("tp=2,microbatch=3", model, 3);
  const PlannedGraph planned = plan_graph(model, plan);
  const Placement second(plan, DeviceId(1));
  const Shards shards(planned, plan, second);
  const std::size_t qkv = op_named(planned, "layers.0.attention.qkv");
  const GraphOp& op = planned.graph.ops[qkv];
  const Layout& weight = planned.op(qkv).layouts.weights[0];
  CHECK(shards.sizes(weight) == std::vector<std::int64_t>{24, 3, 2, 6});
  CHECK(shards.extents(weight)[2] == GlobalExtent{2, 4});
  const auto kept = [&](TensorId tensor) { return planned.tensors[tensor.index()]; };
  CHECK(shards.sizes(kept(op.outputs[0])) == std::vector<std::int64_t>{3, 8, 3, 2, 6});
  CHECK(shards.sizes(kept(op.inputs[0])) == std::vector<std::int64_t>{3, 8, 24});
  // 37 words over two devices: 19 and 18.
  const TensorId logits = planned.graph.ops[op_named(planned, "head.logits")].outputs[0];
  CHECK(shards.sizes(kept(logits)) == std::vector<std::int64_t>{3, 8, 18});
  CHECK(shards.place(kept(logits))[2] == DimPlace{{{19, 18}}, 37});
}

TEST_CASE("gradients are summed over the axes they are partial in") {
  const Model model = small_gpt();
  const Plan plan = small_plan("dp=2,tp=2,sequence_parallel=true,microbatch=1", model, 2);
  const PlannedGraph planned = plan_graph(model, plan);
  const AxisId dp(0), tp(1);
  CHECK(planned.replica_axes == std::vector{dp});
  const auto axes = [&](const std::string& name, std::size_t weight) {
    return planned.gradient_axes(op_named(planned, name), weight);
  };
  CHECK(axes("layers.0.attention.qkv", 0) == std::vector{dp});
  CHECK(axes("layers.0.attention.norm", 0) == std::vector{dp, tp});
  // Positions have no batch: what the sum with the tokens leaves partial reaches their table.
  CHECK(axes("embedding.positions", 0) == std::vector{dp, tp});
  CHECK(axes("embedding.tokens", 0) == std::vector{dp});
}

TEST_CASE("buckets hold every weight once, last ops first, within their size") {
  const Model model = small_gpt({.tied = false});
  const Plan plan = small_plan("dp=2,zero=1,microbatch=1,bucket=8 KiB", model, 2);
  const PlannedGraph planned = plan_graph(model, plan);
  const Placement placement(plan, DeviceId(1));
  const WeightBuckets weights = cut_buckets(planned, plan, placement);
  std::int64_t held = 0;
  for (std::size_t b = 0; b < weights.buckets.size(); ++b) {
    const Bucket& bucket = weights.buckets[b];
    std::int64_t count = 0;
    for (const BucketWeight& weight : bucket.weights) {
      CHECK(weight.offset == count);
      count += element_count(dense_operand(weight.sizes));
    }
    held += count;
    CHECK((bucket.weights.size() == 1 || Bytes(8 * count) <= plan.bucket));
    CHECK(bucket.count == (count + 1) / 2 * 2);  // a multiple of dp
    CHECK(bucket.own_first == bucket.count / 2);
    CHECK(state_buffer(weights, b, StateKind::FirstMoment, plan).count == bucket.count / 2);
    CHECK(state_buffer(weights, b, StateKind::Gradients, plan).count == bucket.count);
  }
  CHECK(held == count_parameters(model).total);
  const WeightId first = weights.buckets.front().weights.front().weight;
  CHECK(planned.graph.weights[first.index()].name == "lm_head.weight");
}

// With stages of one unit, forward m of stage s starts at m + s until gradients come back.
TEST_CASE("unit times follow the dependencies of the pipeline") {
  Plan plan = small_plan("pp=2,microbatch=1", small_gpt(), 3);
  CHECK(plan.order[0] == one_forward_one_backward(2, 3)[0]);
  const auto times = unit_times(plan);
  REQUIRE(times);
  // Stage 0: F0 F1 B0 F2 B1 B2; stage 1: F0 B0 F1 B1 F2 B2.
  CHECK((*times)[0] == std::vector<std::int64_t>{0, 1, 3, 4, 5, 7});
  CHECK((*times)[1] == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
  std::swap(plan.order[0][0], plan.order[0][2]);  // its first backward before its forward
  CHECK(!unit_times(plan));
}

TEST_CASE("tasks are put in the order of their keys, and wait across lanes only") {
  Program program{.device = DeviceId(0)};
  ProgramWriter writer(program);
  const BufferId a = writer.add_buffer({.name = "a", .count = 4});
  const BufferId b = writer.add_buffer({.name = "b", .count = 4});
  Operand read = dense_operand({4}), write = dense_operand({4});
  write.written = true;
  const Kernel make{.kind = KernelKind::Load, .operands = {write}, .name = "make"};
  const Kernel copy{.kind = KernelKind::Sum, .operands = {read, write}, .name = "copy"};
  // Added out of order: copy b from a, then make a and all-reduce it.
  writer.add_task(copy, {a, b}, {2, 0, 0});
  writer.add_task(flat({.group = devices({0, 1})}, 4), {a, a}, {1, 0, 0});
  writer.add_task(make, {a}, {0, 0, 0});
  writer.finish();
  REQUIRE(program.tasks.size() == 3);
  CHECK(program.lanes.size() == 2);
  CHECK(program.kernel(program.tasks[0]).name == "make");
  CHECK(program.waits_of(program.tasks[0]).empty());
  REQUIRE(program.waits_of(program.tasks[1]).size() == 1);
  CHECK(program.waits_of(program.tasks[1])[0] == TaskId(0));
  REQUIRE(program.waits_of(program.tasks[2]).size() == 1);
  CHECK(program.waits_of(program.tasks[2])[0] == TaskId(1));
}

TEST_CASE("in 8 bits what only products read is held in 8 bits, in 16 nothing is") {
  const Model model = small_gpt();
  for (const Precision precision : {Precision::FP8, Precision::BF16}) {
    const Program program =
        lower(model, small_plan("microbatch=2", model, 2, 8, precision), DeviceId(0));
    const auto share = [&](std::string_view name) {
      const auto named = [&](const Buffer& buffer) { return buffer.name.text() == name; };
      const auto found = std::ranges::find_if(program.buffers, named);
      REQUIRE(found != program.buffers.end());
      return static_cast<double>(expected_bytes_of(*found, precision).value()) /
             static_cast<double>(bytes_of(*found, precision).value());
    };
    const double narrow = precision == Precision::FP8 ? 0.5 : 1;
    CHECK(share("layers.0.ffn.norm") == narrow);
    CHECK(share("layers.0.ffn.activation") == narrow);
    CHECK(share("layers.0.ffn.up") == 1);          // the activation reads it
    CHECK(share("layers.0.attention.core") == 1);  // its own backward reads it
    CHECK(share("head.norm") == 1);                // logits are computed in 16 bits
  }
}

}  // namespace meshwright
