#include <catch2/catch.hpp>

#include "simulator/lowering/op_sharding.h"
#include "simulator/lowering/pipeline_order.h"
#include "simulator/lowering/placement.h"
#include "simulator/lowering/program_writer.h"
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

TEST_CASE("shares cover a length once, the first ones being larger") {
  for (const std::int64_t length : {1, 7, 12, 50257}) {
    for (const std::int64_t parts : {1, 2, 3, 7}) {
      std::int64_t next = 0;
      for (std::int64_t part = 0; part < parts; ++part) {
        const Share share = share_of(length, part, parts);
        CHECK(share.start == next);
        CHECK((share.size == length / parts || share.size == length / parts + 1));
        next += share.size;
      }
      CHECK(next == length);
    }
  }
  CHECK(share_of(10, 0, 4).size == 3);
  CHECK(share_of(10, 3, 4).size == 2);
}

// dp=2, tp=2, pp=2: devices 0-3 are the first stage; tensor-parallel neighbours are adjacent.
TEST_CASE("devices have their place in the mesh") {
  const Plan plan = small_plan("dp=2,tp=2,pp=2,microbatch=1", small_gpt(), 4);
  const Placement placement(plan, DeviceId(6));
  CHECK(placement.slot() == 1);
  CHECK(placement.coordinate("dp") == 1);
  CHECK(placement.coordinate("tp") == 0);
  CHECK(placement.group("tp") == devices({6, 7}));
  CHECK(placement.group("dp") == devices({4, 6}));
  CHECK(placement.peer(0) == DeviceId(2));
}

TEST_CASE("ops are split as the plan says and tensors as their producers leave them") {
  const Model model = small_gpt();  // hidden 24, 4 heads of 6, ffn 96, vocabulary 37
  const Plan plan = small_plan("tp=2,microbatch=3", model, 3);
  const PlannedGraph planned = plan_graph(model, plan);
  const Placement second(plan, DeviceId(1));
  const OpSharding sharding(planned, plan, second);
  const std::size_t qkv = op_named(planned, "layers.0.attention.qkv");
  const GraphOp& op = planned.graph.ops[qkv];
  CHECK(sharding.weight_sizes(qkv, op.weights[0]) == std::vector<std::int64_t>{24, 3, 2, 6});
  CHECK(sharding.weight_place(qkv, op.weights[0])[2] == GlobalExtent{2, 4});
  CHECK(sharding.sizes(op.outputs[0]) == std::vector<std::int64_t>{3, 8, 3, 2, 6});
  CHECK(sharding.sizes(op.inputs[0]) == std::vector<std::int64_t>{3, 8, 24});
  // 37 words over two devices: 19 and 18.
  const std::size_t logits = op_named(planned, "head.logits");
  CHECK(sharding.sizes(planned.graph.ops[logits].outputs[0]) ==
        std::vector<std::int64_t>{3, 8, 18});
  CHECK(sharding.place(planned.graph.ops[logits].outputs[0])[2] == GlobalExtent{19, 37});
}

TEST_CASE("buckets hold every weight once, last ops first, within their size") {
  const Model model = small_gpt({.tied = false});
  const Plan plan = small_plan("dp=2,zero=1,microbatch=1,bucket=8 KiB", model, 2);
  const PlannedGraph planned = plan_graph(model, plan);
  const Placement placement(plan, DeviceId(1));
  const OpSharding sharding(planned, plan, placement);
  Program program{.device = DeviceId(1), .precision = plan.precision};
  const WeightBuckets weights = add_weights(program, planned, plan, placement, sharding);
  std::int64_t held = 0;
  for (const Bucket& bucket : weights.buckets) {
    std::int64_t count = 0;
    for (const std::size_t shard : bucket.shards) {
      CHECK(program.weights[shard].offset == count);
      count += element_count(dense_operand(program.weights[shard].sizes));
    }
    held += count;
    CHECK((bucket.shards.size() == 1 || Bytes(8 * count) <= plan.bucket));
    CHECK(bucket.count == (count + 1) / 2 * 2);  // a multiple of dp
    CHECK(bucket.own_first == bucket.count / 2);
    CHECK(program.buffers[bucket.first_moment->index()].count == bucket.count / 2);
  }
  CHECK(held == count_parameters(model).total);
  CHECK(program.weights[weights.buckets.front().shards.front()].name == "lm_head.weight");
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
  writer.add_kernel_task(copy, {a, b}, {2, 0, 0});
  writer.add_transfer_task(flat({.group = devices({0, 1})}, 4), a, {1, 0, 0});
  writer.add_kernel_task(make, {a}, {0, 0, 0});
  writer.add_transfer_task(flat({.group = devices({0})}, 4), a, {3, 0, 0});  // alone: nothing
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

}  // namespace meshwright
