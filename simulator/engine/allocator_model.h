#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/program/program.h"

namespace meshwright {

// A caching allocator as PyTorch has one (c10/cuda/CUDACachingAllocator.cpp, default settings):
// what a training program keeps reserved for a sequence of allocations. Sizes are rounded up to 512
// B. Requests of at most 1 MiB are cut from segments of 2 MiB, those below 10 MiB from segments of
// 20 MiB, larger ones get a segment rounded up to 2 MiB. Of the free blocks of its pool a request
// takes the smallest that holds it, of equal ones that with the lowest address; what is left over
// becomes a block of its own if it is at least 512 B in the small pool, more than 1 MiB in the
// large one. Freed neighbours in a segment are joined. Segments are never given back.
class CachingAllocator {
 public:
  using Handle = std::uint32_t;
  static constexpr std::int64_t kLargeSegment = 20 << 20;
  static constexpr std::int64_t kSegmentRounding = 2 << 20;
  // `size` is more than zero.
  Handle allocate(Bytes size);
  void release(Handle handle);

  Bytes reserved() const { return reserved_; }  // which only grows
  Bytes allocated() const { return allocated_; }

 private:
  struct Block {
    std::int64_t size = 0;
    std::uint64_t address = 0;
    std::optional<Handle> before, after;  // neighbours in the segment
    bool small = false, free = false;
  };
  struct Free {
    std::int64_t size = 0;
    std::uint64_t address = 0;
    Handle block = 0;
    friend auto operator<=>(const Free&, const Free&) = default;
  };

  std::vector<Free>& pool(bool small) { return free_[small ? 1 : 0]; }
  Handle add_segment(std::int64_t size, bool small);
  Handle new_block(const Block& block);
  void add_free(Handle handle);
  void take_free(Handle handle);
  void split(Handle handle, std::int64_t size);
  // `second` stands right behind `first` and goes.
  void join(Handle first, Handle second);

  std::vector<Block> blocks_;
  std::vector<Handle> unused_;  // of `blocks_`
  std::vector<Free> free_[2];   // large, small; by size, then address
  std::uint64_t next_address_ = 0;
  Bytes reserved_, allocated_;
};

// What the allocator of the device's own memory has reserved after a step: persistent buffers
// first, then the others in list order, each from the first task that has it to the last.
Bytes reserved_bytes(const Program& program);

}  // namespace meshwright
