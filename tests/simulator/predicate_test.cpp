#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <functional>

#include "simulator/engine/simulate.h"
#include "simulator/lowering/lower.h"
#include "simulator/lowering/program_writer.h"
#include "simulator/program/check_program.h"
#include "tests/simulator/program_builder.h"
#include "tests/simulator/small_plans.h"

// Tasks that run only if a flag says so.
namespace meshwright {
namespace {

// One kernel that finds out, and one that does something only then.
Program predicated(const std::function<void(Buffer&)>& change_flag = [](Buffer&) {}) {
  Program program;
  ProgramWriter writer(program);
  Buffer flag{.name = "flag", .count = 1, .element = BufferElement::Index};
  change_flag(flag);
  const BufferId x = writer.add_buffer({.name = "x", .count = 4, .persistent = true});
  const BufferId says = writer.add_buffer(flag);
  Operand out = dense_operand({1}, flag.element);
  out.written = true;
  Operand y = dense_operand({4});
  y.written = true;
  writer.add_task(Kernel{.operands = {dense_operand({4}), out}, .name = "find out"}, {x, says},
                  {0, 0, 0});
  writer.add_task(Kernel{.operands = {y}, .name = "act"}, {x, says}, {0, 0, 1},
                  {.has_predicate = true});
  writer.finish();
  return program;
}

std::vector<std::string> problems_of(const Program& program) { return check_alone(program); }

// All of them.
std::string problem_after(const std::function<void(Program&)>& change) {
  Program program = predicated();
  program.transfers.resize(2);
  program.copies.resize(2);
  change(program);
  return fmt::format("{}", fmt::join(problems_of(program), "; "));
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

bool is_update(const Program& program, const Task& task) {
  return task.kind == TaskKind::Kernel && program.kernel(task).kind == KernelKind::AdamW;
}

}  // namespace

TEST_CASE("in fp16 every update, and nothing else, runs only if all gradients are finite") {
  const Model model = small_gpt();
  for (const char* choices :
       {"microbatch=2", "dp=2,zero=1", "dp=2,tp=2,zero=3,offload=optimizer"}) {
    for (const Precision precision : {Precision::FP16, Precision::BF16, Precision::FP32}) {
      CAPTURE(choices, to_text(precision));
      const auto programs = lower_all(model, small_plan(choices, model, 4, 8, precision));
      CHECK(check_programs(programs) == std::vector<std::string>{});
      for (const Program& program : programs) {
        const bool skips = precision == Precision::FP16;
        CHECK(program.finite.has_value() == skips);
        int updates = 0;
        for (const Task& task : program.tasks) {
          updates += is_update(program, task);
          CHECK(task.has_predicate == (skips && is_update(program, task)));
          if (task.has_predicate) CHECK(program.operands_of(task).back() == *program.finite);
        }
        CHECK(updates > 0);
      }
    }
  }
}

TEST_CASE("a mixed plan says where the master of what a device owns of a weight is") {
  const Model model = small_gpt();
  for (const char* choices : {"microbatch=2", "dp=2,zero=1", "dp=2,zero=3,offload=optimizer"}) {
    CAPTURE(choices);
    for (const Program& program :
         lower_all(model, small_plan(choices, model, 4, 8, Precision::BF16))) {
      for (const WeightShard& shard : program.weights) {
        REQUIRE(shard.master.has_value());
        const Buffer& master = program.buffers[shard.master->index()];
        CHECK(master.element == BufferElement::Single);
        const std::int64_t first = shard.offset + shard.owned_first - shard.master_first;
        if (shard.owned_count == 0) continue;
        CHECK(first >= 0);
        CHECK(first + shard.owned_count <= master.count);
      }
    }
    const auto single = lower_all(model, small_plan(choices, model, 4, 8, Precision::FP32));
    for (const WeightShard& shard : single[0].weights) {
      CHECK_FALSE(shard.master.has_value());
    }
  }
}

TEST_CASE("a predicate is written before it is read, and shown with its task") {
  const Program program = predicated();
  CHECK(problems_of(program) == std::vector<std::string>{});
  CHECK(has(program_text(program), "act (x) if flag"));
  const auto unwritten = problem_after([](Program& p) { p.operands[1] = p.operands[0]; });
  CHECK(has(unwritten, "reads flag before anything has written it"));
}

TEST_CASE("predicates of what is never left out, and flags that are none, are named") {
  for (const TaskKind kind : {TaskKind::Transfer, TaskKind::Copy}) {
    const auto other = problem_after([=](Program& p) { p.tasks[1].kind = kind; });
    CHECK(has(other, "has a predicate, which only kernels have"));
  }
  const std::string none = "runs only if flag says so, which is not one index on the device";
  const auto with_flag = [](const std::function<void(Buffer&)>& change) {
    return fmt::format("{}", fmt::join(problems_of(predicated(change)), "; "));
  };
  CHECK(has(with_flag([](Buffer& flag) { flag.element = BufferElement::Real; }), none));
  CHECK(has(with_flag([](Buffer& flag) { flag.count = 2; }), none));
}

// What only a task that may be left out writes may not be there.
TEST_CASE("what a task with a predicate writes is there without it") {
  const auto problems = problem_after([](Program& p) {
    p.buffers.push_back({.name = "only then", .count = 4});
    p.operands[2] = BufferId(2);
    p.kernels.push_back({.operands = {dense_operand({4})}, .name = "read"});
    Task read = p.tasks[1];
    read.what = 2;
    read.has_predicate = false;
    read.operand_count = 1;
    p.tasks.push_back(read);
  });
  CHECK(has(problems, "reads only then before anything has written it"));
}

TEST_CASE("a step is foreseen as one that is not skipped") {
  FixedCosts costs;
  costs.kernels = {{"find out", 1.0_s}, {"act", 2.0_s}};
  const std::vector<Program> programs = {predicated()};
  CHECK(simulate(programs, costs).step == 3.0_s);
}

}  // namespace meshwright
