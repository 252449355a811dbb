#include "executor/process/block_pool.h"

#include <algorithm>

namespace meshwright {
namespace {

constexpr std::size_t kLarge = 64 << 10, kMostKept = 256 << 20;

}  // namespace

MessageBlock BlockPool::take(std::size_t size) {
  auto best = unused_.end();
  for (auto block = size < kLarge ? best : unused_.begin(); block != unused_.end(); ++block) {
    const bool fits = block->capacity >= size;
    if (fits && (best == unused_.end() || block->capacity < best->capacity)) best = block;
  }
  if (best == unused_.end()) {
    return {std::make_unique_for_overwrite<std::byte[]>(size), size, size};
  }
  MessageBlock found = std::move(*best);
  unused_.erase(best);
  kept_ -= found.capacity;
  found.size = size;
  return found;
}

void BlockPool::give_back(MessageBlock block) {
  if (block.capacity < kLarge || kept_ + block.capacity > kMostKept) return;
  kept_ += block.capacity;
  unused_.push_back(std::move(block));
}

}  // namespace meshwright
