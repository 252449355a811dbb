#include "simulator/engine/allocator_model.h"

#include <algorithm>
#include <cassert>

#include "simulator/program/arena.h"

namespace meshwright {
namespace {

constexpr std::int64_t kRounding = 512;
constexpr std::int64_t kSmallRequest = 1 << 20;
constexpr std::int64_t kSmallSegment = 2 << 20;
constexpr std::int64_t kLargeRequest = 10 << 20;
constexpr std::int64_t kLargeSegment = 20 << 20;
constexpr std::int64_t kSegmentRounding = 2 << 20;

std::int64_t rounded_up(std::int64_t size, std::int64_t unit) {
  return (size + unit - 1) / unit * unit;
}

std::int64_t segment_size(std::int64_t size) {
  if (size <= kSmallRequest) return kSmallSegment;
  if (size < kLargeRequest) return kLargeSegment;
  return rounded_up(size, kSegmentRounding);
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
  const auto lives = lifetimes_of(program);
  CachingAllocator allocator;
  std::vector<CachingAllocator::Handle> handles(program.buffers.size());
  for (std::size_t b = 0; b < lives.size(); ++b) {
    const Bytes size = bytes_of(program.buffers[b], program.precision);
    const bool here = program.buffers[b].space == Space::Device;
    if (program.buffers[b].persistent && here && size > 0_B) allocator.allocate(size);
  }
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    const auto operands = program.operands_of(program.tasks[t]);
    const auto each_changing = [&](std::size_t Lifetime::*moment, auto change) {
      for (std::size_t o = 0; o < operands.size(); ++o) {
        const std::size_t b = operands[o].index();
        const bool repeated =
            std::find(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(o),
                      operands[o]) != operands.begin() + static_cast<std::ptrdiff_t>(o);
        const Bytes size = bytes_of(program.buffers[b], program.precision);
        const bool here = program.buffers[b].space == Space::Device;
        if (program.buffers[b].persistent || !here || repeated || size == 0_B) continue;
        if ((*lives[b]).*moment == t) change(b, size);
      }
    };
    each_changing(&Lifetime::first,
                  [&](std::size_t b, Bytes size) { handles[b] = allocator.allocate(size); });
    each_changing(&Lifetime::last, [&](std::size_t b, Bytes) { allocator.release(handles[b]); });
  }
  return allocator.reserved();
}

}  // namespace meshwright
