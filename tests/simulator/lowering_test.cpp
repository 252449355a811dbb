#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <map>

#include "simulator/lowering/lower.h"
#include "simulator/lowering/pipeline_order.h"
#include "simulator/program/check_program.h"
#include "tests/simulator/random_choices.h"
#include "tests/simulator/small_models.h"
#include "tests/simulator/small_plans.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

std::vector<Program> programs_of(const std::string& choices, std::int64_t global_batch,
                                 const Model& model = small_gpt()) {
  const Plan plan = small_plan(choices, model, global_batch);
  CHECK(check_plan(plan, model, test_cluster()) == std::vector<std::string>{});
  auto programs = lower_all(model, plan);
  CHECK(check_programs(programs) == std::vector<std::string>{});
  return programs;
}

std::int64_t elements_moved(const Program& program, Purpose purpose) {
  std::int64_t count = 0;
  for (const Task& task : program.tasks) {
    if (task.kind == TaskKind::Transfer && program.transfer(task).purpose == purpose) {
      count += element_count(program.transfer(task));
    }
  }
  return count;
}

}  // namespace

TEST_CASE("one device only computes") {
  const auto programs = programs_of("dp=1", 4);
  REQUIRE(programs.size() == 1);
  CHECK(programs[0].transfers.empty());
  CHECK(programs[0].lanes == std::vector<std::string>{"compute"});
}

TEST_CASE("every random plan lowers to programs that fit together") {
  CHECK(rc::check("lower and check", [] {
    const RandomChoices choices = random_choices();
    std::mt19937 generator(*rc::gen::arbitrary<std::uint32_t>());
    SmallModel small = random_small_model(generator);
    small.kv_heads = 3;  // as many as tp may be
    small.layers = 4;    // as many as pp may be
    RC_PRE(!has_experts(small.family) || parse_plan_choices(choices.text).cp == 1);
    const Model model = small_model(small);
    RC_LOG(choices.text + " " + config_of(small));
    const Plan plan = small_plan(choices.text, model, choices.global_batch);
    RC_ASSERT(check_plan(plan, model, test_cluster()) == std::vector<std::string>{});
    const auto programs = lower_all(model, plan);
    RC_ASSERT(check_programs(programs) == std::vector<std::string>{});
    const Program& program = programs[*rc::gen::inRange<std::size_t>(0, programs.size())];
    RC_ASSERT(lower(model, plan, program.device) == program);
  }));
}

// Megatron's four all-reduces of s b h a layer and micro-batch (facts of costs 4.4), one for the
// embedding, one for the gradient before the head, and the loss's statistics (3 numbers a row).
TEST_CASE("tensor parallelism moves the published volume") {
  const auto programs = programs_of("tp=2,microbatch=2", 4);
  const std::int64_t rows = 2 * 8, sbh = rows * 24, microbatches = 2, layers = 4;
  CHECK(elements_moved(programs[0], Purpose::Tensor) ==
        microbatches * (4 * layers * sbh + 2 * sbh + 3 * rows));
}

TEST_CASE("separate projections share the sum of their input's gradient") {
  const std::int64_t rows = 2 * 8, sbh = rows * 16, microbatches = 2, layers = 2;
  const std::int64_t volume = microbatches * (4 * layers * sbh + 2 * sbh + 3 * rows);
  const auto moved = [](const char* family, Purpose purpose) {
    const Model model = small_model({.family = family});
    return elements_moved(programs_of("tp=2,microbatch=2", 4, model)[0], purpose);
  };
  CHECK(moved("llama", Purpose::Tensor) == volume);
  CHECK(moved("llama", Purpose::Gradients) == 0);
  CHECK(moved("qwen3", Purpose::Tensor) == volume);
  // The gains of q and k, 4 each, are shared by heads of different devices: once a step.
  CHECK(moved("qwen3", Purpose::Gradients) == layers * 2 * 4);
}

// Korthikanti et al. (arXiv 2205.05198), 4.2.2: an all-gather and a reduce-scatter in place of each
// all-reduce, and once more an all-gather of what the first matrix products of attention and
// feed-forward read, for the gradients of their weights.
TEST_CASE("sequence parallelism gathers and scatters what tensor parallelism reduces") {
  const auto programs = programs_of("tp=2,microbatch=2,sequence_parallel=true", 4);
  const std::int64_t rows = 2 * 8, sbh = rows * 24, microbatches = 2, layers = 4;
  std::map<TransferKind, std::int64_t> elements;
  for (const Task& task : programs[0].tasks) {
    if (task.kind != TaskKind::Transfer) continue;
    const Transfer& transfer = programs[0].transfer(task);
    if (transfer.purpose == Purpose::Tensor) elements[transfer.kind] += element_count(transfer);
  }
  // The embedding's result is scattered, its gradient gathered; the head's input is gathered twice,
  // its gradient scattered.
  CHECK(elements[TransferKind::AllGather] == microbatches * (6 * layers + 3) * sbh);
  CHECK(elements[TransferKind::ReduceScatter] == microbatches * (4 * layers + 2) * sbh);
  CHECK(elements[TransferKind::AllReduce] == microbatches * 3 * rows);
  // Gains and biases of nine norms, and positions, whose rows are on both devices.
  CHECK(elements_moved(programs[0], Purpose::Gradients) == 9 * 2 * 24 + 16 * 24);
}

TEST_CASE("data parallelism reduces every gradient once a step, ZeRO-1 gathers every weight") {
  const Model model = small_gpt();
  const std::int64_t parameters = count_parameters(model).total;
  const auto dp = programs_of("dp=2,microbatch=1", 8);
  CHECK(elements_moved(dp[0], Purpose::Gradients) == parameters);
  CHECK(elements_moved(dp[0], Purpose::Weights) == 0);
  const auto zero = programs_of("dp=2,zero=1,microbatch=1", 8);
  // Buckets are padded to a multiple of the replicas.
  CHECK(elements_moved(zero[0], Purpose::Gradients) >= parameters);
  CHECK(elements_moved(zero[0], Purpose::Gradients) <= parameters + 16);
  CHECK(elements_moved(zero[0], Purpose::Weights) == elements_moved(zero[0], Purpose::Gradients));
}

TEST_CASE("a pipeline sends every boundary forth and back once a micro-batch") {
  const auto programs = programs_of("pp=4,microbatch=1", 6);
  const std::int64_t boundary = 1 * 8 * 24, microbatches = 6;
  CHECK(elements_moved(programs[0], Purpose::Pipeline) == 2 * microbatches * boundary);
  CHECK(elements_moved(programs[1], Purpose::Pipeline) == 4 * microbatches * boundary);
  // The embedding is on the first and the last stage.
  CHECK(elements_moved(programs[0], Purpose::Tied) == 37 * 24);
  CHECK(elements_moved(programs[1], Purpose::Tied) == 0);
  CHECK(elements_moved(programs[3], Purpose::Tied) == 37 * 24);
}

TEST_CASE("every weight is held once by each replica, split weights in parts") {
  const Model model = small_gpt();
  for (const char* choices : {"dp=2,tp=3,pp=2,zero=1", "tp=2", "pp=4"}) {
    CAPTURE(choices);
    std::map<std::string, std::int64_t> held;
    const Plan plan = small_plan(choices, model, 4);
    for (const Program& program : lower_all(model, plan)) {
      if (program.batch.first_row != 0) continue;  // the first replica
      for (const WeightShard& shard : program.weights) {
        std::int64_t count = 1;
        for (const std::int64_t size : shard.sizes) count *= size;
        if (shard.counted) held[shard.name] += count;
      }
    }
    std::int64_t total = 0;
    for (const auto& [name, count] : held) total += count;
    CHECK(total == count_parameters(model).total);
  }
}

TEST_CASE("1F1B keeps at most as many micro-batches in flight as stages follow") {
  const auto order = one_forward_one_backward(4, 8);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    int in_flight = 0, most = 0;
    for (const OrderEntry& entry : order[stage]) {
      in_flight += entry.kind == EntryKind::Forward ? 1 : -1;
      most = std::max(most, in_flight);
    }
    CHECK(most == 4 - static_cast<int>(stage));
  }
}

TEST_CASE("split backwards lower too: input gradients first, weight gradients whenever") {
  const Model model = small_gpt();
  Plan plan = small_plan("pp=2,microbatch=1", model, 2);
  for (std::size_t slot = 0; slot < 2; ++slot) {
    const auto chunk = static_cast<std::int32_t>(slot);
    plan.order[slot] = {
        {EntryKind::Forward, chunk, 0},        {EntryKind::Forward, chunk, 1},
        {EntryKind::InputGradient, chunk, 0},  {EntryKind::InputGradient, chunk, 1},
        {EntryKind::WeightGradient, chunk, 1}, {EntryKind::WeightGradient, chunk, 0}};
  }
  CHECK(check_plan(plan, model, test_cluster()) == std::vector<std::string>{});
  CHECK(check_programs(lower_all(model, plan)) == std::vector<std::string>{});
}

TEST_CASE("broken programs are found") {
  const Model model = small_gpt();
  const auto good = lower_all(model, small_plan("dp=2,pp=2,microbatch=1", model, 4));
  const auto contains = [](const std::vector<std::string>& problems, const std::string& part) {
    return std::any_of(problems.begin(), problems.end(), [&](const std::string& problem) {
      return problem.find(part) != std::string::npos;
    });
  };
  const auto erase_first = [&](auto&& chosen) {
    auto programs = good;
    auto& tasks = programs[0].tasks;
    tasks.erase(std::find_if(tasks.begin(), tasks.end(),
                             [&](const Task& task) { return chosen(programs[0], task); }));
    return check_programs(programs);
  };
  const auto transfer_of = [](TransferKind kind) {
    return [kind](const Program& program, const Task& task) {
      return task.kind == TaskKind::Transfer && program.transfer(task).kind == kind;
    };
  };
  CHECK(contains(erase_first(transfer_of(TransferKind::Send)), "waits for ever"));
  CHECK(
      contains(erase_first(transfer_of(TransferKind::Receive)), "before anything has written it"));
  CHECK(contains(erase_first(transfer_of(TransferKind::AllReduce)), "waits for ever"));
  CHECK(contains(erase_first([](const Program& program, const Task& task) {
                   return task.kind == TaskKind::Kernel &&
                          program.kernel(task).kind == KernelKind::Matmul;
                 }),
                 "does not run exactly once"));
  auto programs = good;
  for (Task& task : programs[0].tasks) task.wait_count = 0;
  CHECK(contains(check_programs(programs), "without waiting"));
  programs = good;
  programs[0].transfers[0].source->sizes[0] += 1;
  CHECK(!check_programs(programs).empty());
  programs = good;
  std::swap(programs[0].tasks[3], programs[0].tasks[4]);
  CHECK(contains(check_programs(programs), "comes later"));
  programs = good;
  programs[0].buffers.push_back({.name = "spare", .count = 1});
  CHECK(contains(check_programs(programs), "nothing reads spare"));
}

}  // namespace meshwright
