#include "simulator/engine/allocator_model.h"

#include <algorithm>
#include <cassert>

namespace meshwright {
namespace {

constexpr std::int64_t kRounding = 512;
constexpr std::int64_t kSmallRequest = 1 << 20;
constexpr std::int64_t kSmallSegment = 2 << 20;
constexpr std::int64_t kLargeRequest = 10 << 20;

std::int64_t rounded_up(std::int64_t size, std::int64_t unit) {
  return (size + unit - 1) / unit * unit;
}

std::int64_t segment_size(std::int64_t size) {
  if (size <= kSmallRequest) return kSmallSegment;
  if (size < kLargeRequest) return CachingAllocator::kLargeSegment;
  return rounded_up(size, CachingAllocator::kSegmentRounding);
}

bool is_worth_keeping(std::int64_t rest, bool small) {
  return small ? rest >= kRounding : rest > kSmallRequest;
}

}  // namespace

CachingAllocator::Handle CachingAllocator::allocate(Bytes size) {
  assert(size > 0_B);
  const std::int64_t needed = rounded_up(size.value(), kRounding);
  const bool small = needed <= kSmallRequest;
  const auto& free = pool(small);
  const auto found = std::ranges::lower_bound(free, Free{needed, 0, 0});
  const Handle handle =
      found != free.end() ? found->block : add_segment(segment_size(needed), small);
  take_free(handle);
  if (is_worth_keeping(blocks_[handle].size - needed, small)) split(handle, needed);
  allocated_ += Bytes(blocks_[handle].size);
  return handle;
}

void CachingAllocator::release(Handle handle) {
  assert(!blocks_[handle].free);
  allocated_ -= Bytes(blocks_[handle].size);
  const auto before = blocks_[handle].before;
  if (const auto after = blocks_[handle].after; after && blocks_[*after].free) {
    take_free(*after);
    join(handle, *after);
  }
  if (before && blocks_[*before].free) {
    take_free(*before);
    join(*before, handle);
    handle = *before;
  }
  add_free(handle);
}

CachingAllocator::Handle CachingAllocator::add_segment(std::int64_t size, bool small) {
  const Handle handle = new_block({.size = size, .address = next_address_, .small = small});
  // Segments are not neighbours.
  next_address_ += static_cast<std::uint64_t>(size) + kSegmentRounding;
  reserved_ += Bytes(size);
  add_free(handle);
  return handle;
}

CachingAllocator::Handle CachingAllocator::new_block(const Block& block) {
  if (unused_.empty()) {
    blocks_.push_back(block);
    return static_cast<Handle>(blocks_.size() - 1);
  }
  const Handle handle = unused_.back();
  unused_.pop_back();
  blocks_[handle] = block;
  return handle;
}

void CachingAllocator::add_free(Handle handle) {
  Block& block = blocks_[handle];
  block.free = true;
  auto& free = pool(block.small);
  const Free entry{block.size, block.address, handle};
  free.insert(std::ranges::lower_bound(free, entry), entry);
}

void CachingAllocator::take_free(Handle handle) {
  Block& block = blocks_[handle];
  block.free = false;
  auto& free = pool(block.small);
  free.erase(std::ranges::lower_bound(free, Free{block.size, block.address, handle}));
}

void CachingAllocator::split(Handle handle, std::int64_t size) {
  const Block whole = blocks_[handle];
  const Handle rest = new_block({.size = whole.size - size,
                                 .address = whole.address + static_cast<std::uint64_t>(size),
                                 .before = handle,
                                 .after = whole.after,
                                 .small = whole.small});
  if (whole.after) blocks_[*whole.after].before = rest;
  blocks_[handle].after = rest;
  blocks_[handle].size = size;
  add_free(rest);
}

void CachingAllocator::join(Handle first, Handle second) {
  blocks_[first].size += blocks_[second].size;
  blocks_[first].after = blocks_[second].after;
  if (const auto after = blocks_[second].after) blocks_[*after].before = first;
  unused_.push_back(second);
}

Bytes reserved_bytes(const Program& program) {
  CachingAllocator allocator;
  std::vector<Bytes> passing(program.buffers.size());  // 0: there all the time, or elsewhere
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.space != Space::Device) continue;
    const Bytes size = expected_bytes_of(buffer, program.precision);
    if (!buffer.persistent) {
      passing[b] = size;
    } else if (size > 0_B) {
      allocator.allocate(size);
    }
  }
  std::vector<std::uint32_t> last(program.buffers.size());
  for (std::uint32_t t = 0; t < program.tasks.size(); ++t) {
    for (const BufferId id : program.operands_of(program.tasks[t])) last[id.index()] = t;
  }
  std::vector<std::optional<CachingAllocator::Handle>> handles(program.buffers.size());
  for (std::uint32_t t = 0; t < program.tasks.size(); ++t) {
    const auto operands = program.operands_of(program.tasks[t]);
    for (const BufferId id : operands) {
      auto& handle = handles[id.index()];
      if (!handle && passing[id.index()] > 0_B) handle = allocator.allocate(passing[id.index()]);
    }
    for (const BufferId id : operands) {
      auto& handle = handles[id.index()];
      if (!handle || last[id.index()] != t) continue;
      allocator.release(*handle);
      handle.reset();
    }
  }
  return allocator.reserved();
}

}  // namespace meshwright
