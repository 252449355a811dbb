#include "tests/standin/emulator.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

namespace meshwright::standin {
namespace {

// The sum of what all threads of a block bring, by warps and then by one place of memory for each;
// without the barrier between the two it is wrong.
std::vector<int> sums_of_blocks(unsigned blocks, unsigned threads, std::uint64_t seed,
                                bool with_barrier) {
  std::vector<int> sums(blocks, -1);
  std::array<int, 32> warps{};
  run_blocks(blocks, threads, seed, [&] {
    int value = static_cast<int>(here().thread.x + here().block.x);
    const unsigned lane = here().thread.x % kLanes;
    for (unsigned step = kLanes / 2; step > 0; step /= 2) {
      int other = 0;
      std::memcpy(&other, exchange(0xffffffffu, &value, sizeof(value), lane ^ step), sizeof(other));
      value += other;
    }
    if (lane == 0) warps[here().thread.x / kLanes] = value;
    if (with_barrier) wait_for_block();
    int sum = 0;
    for (unsigned warp = 0; warp < here().threads.x / kLanes; ++warp) sum += warps[warp];
    if (here().thread.x == 0) sums[here().block.x] = sum;
    wait_for_block();  // before the next block's
  });
  return sums;
}

}  // namespace

TEST_CASE("threads of a block meet at barriers and see each other's lanes, in any order") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto sums = sums_of_blocks(3, 128, seed, true);
    // 0 + 1 + ... + 127, and the block's number for each.
    for (int block = 0; block < 3; ++block) CHECK(sums[block] == 127 * 64 + block * 128);
  }
}

TEST_CASE("a barrier that is missing gives a wrong sum in some order") {
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    wrong += sums_of_blocks(3, 128, seed, false) != sums_of_blocks(3, 128, seed, true);
  }
  CHECK(wrong > 10);
}

TEST_CASE("every thread of every block runs once, whatever the order") {
  std::vector<int> runs(5 * 40);
  std::vector<unsigned> order;
  run_blocks(5, 40, 3, [&] {
    ++runs[here().block.x * 40 + here().thread.x];
    order.push_back(here().block.x);
  });
  CHECK(runs == std::vector<int>(5 * 40, 1));
  CHECK(order != std::vector<unsigned>(order.rbegin(), order.rend()));
  CHECK(!std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("threads that wait where others never come are reported") {
  const auto half = [] {
    if (here().thread.x < 16) wait_for_warp(0xffffffffu);
  };
  CHECK_THROWS_WITH(run_blocks(1, 32, 1, half),
                    Catch::Contains("16 for their warp, 16 have ended"));
  const auto apart = [] { here().thread.x < 32 ? wait_for_block() : wait_for_warp(0x1u); };
  CHECK_THROWS_WITH(run_blocks(1, 64, 1, apart), Catch::Contains("is stuck"));
  // What was stuck is gone.
  CHECK(sums_of_blocks(1, 64, 1, true)[0] == 63 * 32);
}

}  // namespace meshwright::standin
