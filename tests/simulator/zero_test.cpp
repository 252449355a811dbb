#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "simulator/engine/simulate.h"
#include "simulator/lowering/lower.h"
#include "simulator/program/arena.h"
#include "simulator/program/check_program.h"
#include "tests/simulator/small_plans.h"
#include "tests/user_costs.h"

// What ZeRO must hold and move. Of an untied model, for a tied weight's gradient is never sharded.
namespace meshwright {
namespace {

std::vector<Program> zero_programs(const std::string& choices, std::int64_t global_batch,
                                   const Model& model) {
  const Plan plan = small_plan(choices, model, global_batch, 8, Precision::FP32);
  CHECK(check_plan(plan, model, test_cluster()) == std::vector<std::string>{});
  auto programs = lower_all(model, plan);
  CHECK(check_programs(programs) == std::vector<std::string>{});
  return programs;
}

std::int64_t persistent_bytes(const Program& program, Component component) {
  Bytes sum;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.persistent && buffer.component == component) {
      sum += bytes_of(buffer, program.precision);
    }
  }
  return sum.value();
}

std::int64_t elements_of(const WeightShard& shard) {
  std::int64_t count = 1;
  for (const std::int64_t size : shard.sizes) count *= size;
  return count;
}

struct Held {
  std::int64_t parameters = 0;
  std::int64_t padded = 0;  // each bucket filled up to a multiple of the replicas
  std::int64_t buckets = 0;
};

Held held_by(const Program& program, std::int64_t multiple) {
  std::map<BufferId, std::int64_t> buckets;
  for (const WeightShard& shard : program.weights) buckets[shard.weight] += elements_of(shard);
  Held held;
  for (const auto& [buffer, count] : buckets) {
    held.parameters += count;
    held.padded += (count + multiple - 1) / multiple * multiple;
    ++held.buckets;
  }
  return held;
}

std::int64_t elements_moved(const Program& program, Purpose purpose, TransferKind kind) {
  std::int64_t count = 0;
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::Transfer) continue;
    const Transfer& transfer = program.transfer(task);
    if (transfer.purpose == purpose && transfer.kind == kind) count += element_count(transfer);
  }
  return count;
}

// The most buffers of a component that are there at once but do not stay.
std::int64_t most_whole(const Program& program, Component component) {
  const auto lives = lifetimes_of(program);
  std::int64_t most = 0;
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    std::int64_t count = 0;
    for (std::size_t b = 0; b < lives.size(); ++b) {
      const Buffer& buffer = program.buffers[b];
      if (buffer.persistent || buffer.component != component || !lives[b]) continue;
      if (lives[b]->first <= t && t <= lives[b]->last) ++count;
    }
    most = std::max(most, count);
  }
  return most;
}

}  // namespace

// In fp32 a parameter has 4 bytes of weight, 4 of gradient and 8 of optimizer state, of which
// ZeRO-1 divides the last by d, ZeRO-2 the last two, ZeRO-3 all (ZeRO paper, section 5).
TEST_CASE("ZeRO divides what a device keeps of each parameter") {
  const Model model = small_gpt({.tied = false});
  for (const std::int64_t d : {2, 3}) {
    for (const char* rest : {"tp=1", "tp=2", "pp=2", "tp=2,pp=2,bucket=3 KiB"}) {
      for (int zero = 0; zero <= 3; ++zero) {
        CAPTURE(d, rest, zero);
        const auto divisor = [&](int from) { return zero >= from ? d : 1; };
        const std::string choices =
            "dp=" + std::to_string(d) + ",zero=" + std::to_string(zero) + ",microbatch=1," + rest;
        for (const Program& program : zero_programs(choices, 2 * d, model)) {
          const Held held = held_by(program, divisor(1));
          const std::int64_t weights = persistent_bytes(program, Component::Weights);
          const std::int64_t gradients = persistent_bytes(program, Component::Gradients);
          const std::int64_t optimizer = persistent_bytes(program, Component::Optimizer);
          CHECK(weights == 4 * held.padded / divisor(3));
          CHECK(gradients == 4 * held.padded / divisor(2));
          CHECK(optimizer == 8 * held.padded / divisor(1));
          CHECK(held.padded - held.parameters <= held.buckets * (divisor(1) - 1));
        }
      }
    }
  }
}

// ZeRO within a group of N of n replicas, the groups repeat it: state and gathers by N, and each
// owner's part of the gradients is summed over the n / N groups.
TEST_CASE("replicas in groups share state out within them and sum their parts across") {
  const Model model = small_gpt({.tied = false});
  for (const int zero : {1, 2, 3}) {
    for (const std::int64_t shard : {2, 4}) {
      CAPTURE(zero, shard);
      const std::string choices =
          "dp=8,microbatch=1,zero=" + std::to_string(zero) + ",shard=" + std::to_string(shard);
      const Program program = zero_programs(choices, 16, model)[0];
      const Held held = held_by(program, shard);
      CHECK(persistent_bytes(program, Component::Optimizer) == 2 * 4 * held.padded / shard);
      const std::int64_t sums = zero == 1 ? 1 : 2, gathers = zero == 3 ? 2 * 2 : 1;
      const auto moved = [&](Purpose purpose, TransferKind kind) {
        return elements_moved(program, purpose, kind);
      };
      CHECK(moved(Purpose::Gradients, TransferKind::ReduceScatter) == sums * held.padded);
      CHECK(moved(Purpose::Weights, TransferKind::AllGather) == gathers * held.padded);
      const std::int64_t across = moved(Purpose::Gradients, TransferKind::AllReduce);
      CHECK(across % (held.padded / shard) == 0);
      CHECK(across >= held.padded / shard);
      CHECK(across <= sums * held.padded / shard);
    }
  }
}

TEST_CASE("ZeRO-2 reduces every gradient once a micro-batch and gathers every weight once") {
  const Model model = small_gpt({.tied = false});
  for (const char* rest : {"", ",overlap=false", ",bucket=3 KiB", ",pp=2,schedule=gpipe"}) {
    CAPTURE(rest);
    const std::string choices = std::string("dp=2,zero=2,microbatch=1") + rest;
    for (const Program& program : zero_programs(choices, 6, model)) {
      const std::int64_t padded = held_by(program, 2).padded, microbatches = 3;
      CHECK(elements_moved(program, Purpose::Gradients, TransferKind::ReduceScatter) ==
            microbatches * padded);
      CHECK(elements_moved(program, Purpose::Weights, TransferKind::AllGather) == padded);
    }
  }
}

TEST_CASE("ZeRO-3 gathers every weight for the forward and for the backward of a micro-batch") {
  const Model model = small_gpt({.tied = false});
  for (const char* rest : {"", ",prefetch=0", ",pp=2", ",pp=2,tp=2,schedule=gpipe"}) {
    CAPTURE(rest);
    const std::string choices = std::string("dp=2,zero=3,microbatch=1") + rest;
    for (const Program& program : zero_programs(choices, 6, model)) {
      const std::int64_t padded = held_by(program, 2).padded, microbatches = 3;
      CHECK(elements_moved(program, Purpose::Gradients, TransferKind::ReduceScatter) ==
            microbatches * padded);
      CHECK(elements_moved(program, Purpose::Weights, TransferKind::AllGather) ==
            2 * microbatches * padded);
    }
  }
}

TEST_CASE("weights are gathered as many buckets ahead of their use as the plan says") {
  const Model model = small_gpt({.tied = false});
  for (const std::size_t prefetch : {0u, 1u, 3u}) {
    CAPTURE(prefetch);
    const auto programs = zero_programs(
        "dp=2,zero=3,microbatch=1,bucket=3 KiB,prefetch=" + std::to_string(prefetch), 2, model);
    const Program& program = programs[0];
    std::size_t gathered = 0;
    std::set<BufferId> used;
    for (const Task& task : program.tasks) {
      if (task.kind == TaskKind::Transfer) {
        if (program.transfer(task).purpose != Purpose::Weights) continue;
        // One less where the kernel that comes next uses two buckets for the first time.
        const std::size_t before = gathered < prefetch ? 0 : gathered - prefetch;
        CHECK(used.size() <= before);
        CHECK(used.size() + 1 >= before);
        ++gathered;
        continue;
      }
      if (program.kernel(task).kind == KernelKind::Loss) break;
      if (program.kernel(task).phase != Phase::Forward) continue;
      for (const BufferId id : program.operands_of(task)) {
        if (program.buffers[id.index()].component == Component::Weights) used.insert(id);
      }
    }
    CHECK(gathered > 10);
    CHECK(used.size() == gathered);
  }
}

// A kernel may use two buckets: a weight of one, the bias of the next. A gradient waits for one
// more bucket before it is added to the own part.
TEST_CASE("with ZeRO-3 only the buckets in use and those fetched ahead are whole") {
  const Model model = small_gpt({.tied = false});
  for (const std::int64_t prefetch : {0, 1, 2}) {
    CAPTURE(prefetch);
    const auto programs = zero_programs(
        "dp=2,pp=2,zero=3,microbatch=1,bucket=3 KiB,prefetch=" + std::to_string(prefetch), 6,
        model);
    for (const Program& program : programs) {
      CHECK(held_by(program, 2).buckets > 8);
      CHECK(most_whole(program, Component::Weights) <= prefetch + 2);
      CHECK(most_whole(program, Component::Gradients) <= 3);
    }
  }
}

TEST_CASE("gathering weights ahead hides transfers behind computation") {
  const Model model = small_gpt({.hidden = 192, .vocabulary = 400, .tied = false});
  const UserCosts costs(test_cluster());
  const auto step = [&](const char* prefetch) {
    const Plan plan = small_plan(
        std::string("dp=2,zero=3,microbatch=8,bucket=1 MiB,prefetch=") + prefetch, model, 16, 16);
    return simulate(lower_all(model, plan), costs).step;
  };
  CHECK(step("1") < step("0"));
}

TEST_CASE("one replica has nothing to shard") {
  const Model model = small_gpt();
  const auto plain = zero_programs("tp=2,microbatch=1,zero=0", 2, model);
  const auto sharded = zero_programs("tp=2,microbatch=1,zero=3", 2, model);
  for (std::size_t d = 0; d < plain.size(); ++d) {
    CHECK(program_text(sharded[d]) == program_text(plain[d]));
    CHECK(sharded[d].buffers == plain[d].buffers);
  }
}

TEST_CASE("frozen weights have no gradients, no optimizer state and no weight-gradient kernels") {
  const Model model = frozen_gpt({.layers = 6, .tied = false}, 2);
  const ParameterCount count = count_parameters(model);
  REQUIRE(count.trainable < count.total);
  const auto program = zero_programs("microbatch=1", 2, model).front();
  CHECK(persistent_bytes(program, Component::Weights) == 4 * count.total);
  CHECK(persistent_bytes(program, Component::Gradients) == 4 * count.trainable);
  CHECK(persistent_bytes(program, Component::Optimizer) == 8 * count.trainable);
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::Kernel) continue;
    const Kernel& kernel = program.kernel(task);
    if (kernel.name.find("layers.0.") == kernel.name.npos) continue;
    CHECK(kernel.phase == Phase::Forward);
  }
}

}  // namespace meshwright
