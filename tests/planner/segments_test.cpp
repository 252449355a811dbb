#include <catch2/catch.hpp>
#include <optional>
#include <random>
#include <vector>

#include "planner/bound/apart_segments.h"
#include "simulator/engine/allocator_model.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

// As a program's tasks do: all that a task is the first to have, then what it is the last to have.
Bytes reserved_for(const std::vector<ListedBuffer>& buffers, std::uint32_t tasks) {
  CachingAllocator allocator;
  std::vector<std::optional<CachingAllocator::Handle>> handles(buffers.size());
  for (std::uint32_t t = 0; t < tasks; ++t) {
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      if (buffers[b].first == t) handles[b] = allocator.allocate(buffers[b].size);
    }
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      if (buffers[b].last == t) allocator.release(*handles[b]);
    }
  }
  return allocator.reserved();
}

Bytes most_there(const std::vector<ListedBuffer>& buffers, std::uint32_t end) {
  Bytes most;
  for (std::uint32_t t = 0; t < end; ++t) {
    Bytes there;
    for (const ListedBuffer& buffer : buffers) {
      if (buffer.first <= t && t <= buffer.last) there += buffer.size;
    }
    most = std::max(most, there);
  }
  return most;
}

}  // namespace

TEST_CASE("segments for larger buffers than before are reserved beside the others") {
  // 3 MiB and 5 MiB are too small to count by themselves, and 30 MiB are not in 20 MiB's place.
  CHECK(apart_segments({{20_MiB, 0, 1}, {30_MiB, 2, 3}, {40_MiB, 4, 5}}, 3_MiB) == 70_MiB);
  // What comes after a larger one may be in its place.
  CHECK(apart_segments({{40_MiB, 0, 1}, {30_MiB, 2, 3}}, 20_MiB) == 40_MiB);
  CHECK(apart_segments({{40_MiB, 0, 1}, {30_MiB, 2, 3}}, 40_MiB) == 0_MiB);
  // Two at once, then one that neither is large enough for.
  CHECK(apart_segments({{30_MiB, 0, 2}, {32_MiB, 1, 2}, {50_MiB, 3, 4}}, 20_MiB) == 112_MiB);
}

TEST_CASE("a caching allocator reserves no less than what is kept apart and what was before") {
  for (std::uint32_t seed = 1; seed <= static_cast<std::uint32_t>(cases(300, 20000)); ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto draw = [&](std::int64_t from, std::int64_t to) {
      return std::uniform_int_distribution<std::int64_t>(from, to)(random);
    };
    const auto task = [&](std::uint32_t from, std::uint32_t to) {
      return static_cast<std::uint32_t>(draw(from, to));
    };
    constexpr std::uint32_t kBefore = 30, kTasks = 60;
    const std::int64_t above = draw(1 << 20, 90 << 20);
    std::vector<ListedBuffer> buffers, larger;
    for (std::int64_t count = draw(5, 40); count > 0; --count) {
      const std::uint32_t first = task(0, kTasks - 1);
      // Some are of one size, others of sizes that few segments differ by.
      const std::int64_t size = first < kBefore || draw(0, 3) == 0
                                    ? draw(1, above)
                                    : above + draw(1, 8) * draw(1, 16 << 20);
      buffers.push_back({Bytes(size), first, task(first, kTasks - 1)});
      if (size > above) larger.push_back(buffers.back());
    }
    const Bytes reserved = reserved_for(buffers, kTasks);
    CHECK(reserved >= most_there(buffers, kBefore) + apart_segments(larger, Bytes(above)));
  }
}

}  // namespace meshwright
