#include "simulator/program/arena.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "tests/test_scale.h"

namespace meshwright {
namespace {

// Tasks that each use a few of the buffers, somewhere.
Program random_program(unsigned seed) {
  std::mt19937 random(seed);
  Program program{.lanes = {"compute"}};
  program.kernels.emplace_back();
  const std::size_t buffers = 1 + random() % 40, tasks = random() % 60;
  for (std::size_t b = 0; b < buffers; ++b) {
    program.buffers.push_back({.name = "b" + std::to_string(b),
                               .count = static_cast<std::int64_t>(random() % 500),
                               .element = static_cast<BufferElement>(random() % 3),
                               .persistent = random() % 8 == 0});
  }
  for (std::size_t t = 0; t < tasks; ++t) {
    Task task{.first_operand = static_cast<std::uint32_t>(program.operands.size())};
    task.operand_count = 1 + random() % 4;
    const std::size_t near = t * buffers / tasks;
    for (std::uint32_t i = 0; i < task.operand_count; ++i) {
      program.operands.push_back(BufferId(std::min(buffers - 1, near + random() % 5)));
    }
    program.tasks.push_back(task);
  }
  return program;
}

// The most that lives at one task.
Bytes least_peak(const Program& program) {
  const auto lives = lifetimes_of(program);
  Bytes peak;
  for (std::size_t t = 0; t < std::max<std::size_t>(1, program.tasks.size()); ++t) {
    Bytes sum;
    for (std::size_t b = 0; b < lives.size(); ++b) {
      if (lives[b] && lives[b]->first <= t && t <= lives[b]->last) {
        sum += arena_bytes(program.buffers[b], program.precision);
      }
    }
    peak = std::max(peak, sum);
  }
  return peak;
}

Program two_in_turn(bool overlap) {
  Program program{.lanes = {"compute"}};
  program.kernels.emplace_back();
  program.buffers = {{.name = "a", .count = 16}, {.name = "b", .count = 17}};
  program.operands = {BufferId(0), BufferId(1)};
  program.tasks = {{.first_operand = 0, .operand_count = overlap ? 2u : 1u},
                   {.first_operand = 1, .operand_count = 1}};
  return program;
}

}  // namespace

TEST_CASE("buffers that live at the same time never overlap in an arena") {
  for (int seed = 0; seed < cases(200, 5000); ++seed) {
    CAPTURE(seed);
    const Program program = random_program(static_cast<unsigned>(seed));
    const Arena arena = lay_out_arena(program);
    CHECK(check_arena(program, arena) == std::vector<std::string>{});
    CHECK(arena.peak >= least_peak(program));
    CHECK(arena == lay_out_arena(program));
  }
}

TEST_CASE("buffers that live one after the other share memory") {
  // 16 and 17 numbers of 4 bytes: 64 and, rounded up to the alignment, 128.
  CHECK(lay_out_arena(two_in_turn(false)).peak == 128_B);
  CHECK(lay_out_arena(two_in_turn(true)).peak == 192_B);
}

TEST_CASE("a buffer lives from its first task to its last") {
  Program program = two_in_turn(true);
  program.buffers.push_back({.name = "unused", .count = 3});
  program.buffers.push_back({.name = "kept", .count = 3, .persistent = true});
  using Lives = std::vector<std::optional<Lifetime>>;
  CHECK(lifetimes_of(program) ==
        Lives{Lifetime{0, 0}, Lifetime{0, 1}, std::nullopt, Lifetime{0, 1}});
  const Arena arena = lay_out_arena(program);
  CHECK(!arena.offsets[2]);
  CHECK(arena.offsets[3] == 0_B);
}

TEST_CASE("what is wrong with an arena is found") {
  const Program program = two_in_turn(true);
  using Faults = std::vector<std::string>;
  CHECK(check_arena(program, {.offsets = {0_B, 0_B}, .peak = 128_B}) == Faults{"a overlaps b"});
  CHECK(check_arena(program, {.offsets = {0_B, 64_B}, .peak = 100_B}) == Faults{"b is not inside"});
  CHECK(check_arena(program, {.offsets = {0_B, 65_B}, .peak = 192_B}) ==
        Faults{"b is not aligned"});
  CHECK(check_arena(program, {.offsets = {0_B, std::nullopt}, .peak = 192_B}) ==
        Faults{"b has no place"});
}

}  // namespace meshwright
