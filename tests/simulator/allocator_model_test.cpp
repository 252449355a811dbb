#include "simulator/engine/allocator_model.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>

#include "tests/simulator/program_builder.h"

namespace meshwright {

TEST_CASE("small, middle and large requests get segments of their own kind") {
  CachingAllocator allocator;
  allocator.allocate(1_B);
  CHECK(allocator.allocated() == 512_B);
  CHECK(allocator.reserved() == 2_MiB);
  allocator.allocate(1_MiB);  // from the same segment
  CHECK(allocator.reserved() == 2_MiB);
  allocator.allocate(1_MiB);  // 2 MiB - 512 B - 1 MiB are left
  CHECK(allocator.reserved() == 4_MiB);
  // Two of 7 MiB fit into 20 MiB, a third does not.
  allocator.allocate(7_MiB);
  allocator.allocate(7_MiB);
  CHECK(allocator.reserved() == 24_MiB);
  allocator.allocate(7_MiB);
  CHECK(allocator.reserved() == 44_MiB);
  // From 10 MiB on a segment of its own, in steps of 2 MiB: 15 to 16 MiB.
  allocator.allocate(15_MiB);
  CHECK(allocator.reserved() == 60_MiB);
}

TEST_CASE("what is freed is used again, joined with its neighbours") {
  CachingAllocator allocator;
  const auto first = allocator.allocate(30_MiB);
  allocator.release(first);
  const auto left = allocator.allocate(10_MiB);   // cut from the 30 MiB
  const auto right = allocator.allocate(20_MiB);  // the rest
  CHECK(allocator.reserved() == 30_MiB);
  allocator.release(right);
  allocator.release(left);
  allocator.allocate(30_MiB);
  CHECK(allocator.reserved() == 30_MiB);
}

TEST_CASE("free blocks of several segments do not make one") {
  CachingAllocator allocator;
  const auto one = allocator.allocate(12_MiB);
  const auto other = allocator.allocate(12_MiB);
  allocator.release(one);
  allocator.release(other);
  allocator.allocate(24_MiB);
  CHECK(allocator.reserved() == 48_MiB);
  CHECK(allocator.allocated() == 24_MiB);
}

TEST_CASE("a rest of up to 1 MiB stays with a large block") {
  CachingAllocator allocator;
  allocator.release(allocator.allocate(12_MiB));
  allocator.allocate(11_MiB);
  CHECK(allocator.allocated() == 12_MiB);
  allocator.release(allocator.allocate(14_MiB));
  allocator.allocate(12_MiB);  // 2 MiB are worth keeping
  CHECK(allocator.allocated() == 24_MiB);
}

TEST_CASE("no two blocks overlap and nothing is lost") {
  CHECK(rc::check([] {
    CachingAllocator allocator;
    std::vector<std::pair<CachingAllocator::Handle, Bytes>> held;
    Bytes asked;
    for (int i = *rc::gen::inRange(0, 60); i > 0; --i) {
      if (!held.empty() && *rc::gen::arbitrary<bool>()) {
        const auto place = *rc::gen::inRange<std::size_t>(0, held.size());
        allocator.release(held[place].first);
        asked -= held[place].second;
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(place));
      } else {
        const Bytes size(*rc::gen::inRange<std::int64_t>(1, 1 << 25));
        held.emplace_back(allocator.allocate(size), size);
        asked += size;
      }
      RC_ASSERT(allocator.allocated() >= asked);
      RC_ASSERT(allocator.reserved() >= allocator.allocated());
    }
    for (const auto& [handle, size] : held) allocator.release(handle);
    RC_ASSERT(allocator.allocated() == 0_B);
    // All is joined again, so the largest segment can be had as one, and what fits in the others.
    const Bytes before = allocator.reserved();
    if (before > 0_B) allocator.release(allocator.allocate(1_B));
    RC_ASSERT(allocator.reserved() <= before + 2_MiB);
  }));
}

TEST_CASE("a program's buffers are allocated and freed in list order") {
  const auto mebibytes = [](std::int64_t n) { return n << 18; };  // 4-byte numbers
  ProgramBuilder builder(0);
  const BufferId weight = builder.buffer("weight", mebibytes(30), Component::Weights, true);
  const BufferId first = builder.buffer("first", mebibytes(12), Component::Activations);
  const BufferId second = builder.buffer("second", mebibytes(24), Component::Activations);
  const BufferId third = builder.buffer("third", mebibytes(12), Component::Activations);
  builder.kernel({.name = "a"}, {weight, first});
  builder.kernel({.name = "b"}, {second});
  builder.kernel({.name = "c"}, {third, third});  // takes what `first` left
  CHECK(reserved_bytes(builder.program()) == 30_MiB + 12_MiB + 24_MiB);
}

}  // namespace meshwright
