#include "tests/standin/guarded_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace meshwright::standin {
namespace {

constexpr std::size_t kAlignment = 256;  // what cudaMalloc promises
constexpr std::size_t kPage = 4096;
constexpr std::size_t kFilled = 1 << 20;  // of what is new; libraries ask for much more than that

#ifdef __SANITIZE_ADDRESS__
constexpr bool kWatched = true;
#else
constexpr bool kWatched = false;
#endif

std::size_t rounded(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

void* GuardedMemory::allocate(std::size_t bytes, std::optional<int> device) {
  Allocation made{.bytes = bytes, .device = device};
  char* start = nullptr;
  if (kWatched || !device) {
    start = static_cast<char*>(std::aligned_alloc(kAlignment, rounded(bytes, kAlignment)));
    if (start == nullptr) return nullptr;
  } else {
    // A page that stays closed follows.
    made.page_bytes = rounded(bytes, kPage);
    made.pages = ::mmap(nullptr, made.page_bytes + kPage, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made.pages == MAP_FAILED) return nullptr;
    ::mprotect(made.pages, made.page_bytes, PROT_READ | PROT_WRITE);
    start = static_cast<char*>(made.pages) + made.page_bytes - rounded(bytes, kAlignment);
  }
  std::memset(start, 0xff, std::min(bytes, kFilled));
  if (guarded_ && made.pages != nullptr && !open_.contains(*device)) {
    ::mprotect(made.pages, made.page_bytes, PROT_NONE);
  }
  live_.emplace(start, made);
  return start;
}

void GuardedMemory::release(void* memory) {
  const auto found = live_.find(static_cast<char*>(memory));
  if (found->second.pages == nullptr) {
    std::free(memory);
  } else {
    // The place stays taken, so that nothing else comes to be there.
    ::mprotect(found->second.pages, found->second.page_bytes, PROT_NONE);
    ::madvise(found->second.pages, found->second.page_bytes, MADV_DONTNEED);
    freed_.insert(*found);
  }
  live_.erase(found);
}

void GuardedMemory::clear() {
  for (const auto& [start, made] : live_) {
    if (made.pages == nullptr) std::free(const_cast<char*>(start));
  }
  live_.merge(freed_);
  for (const auto& [start, made] : live_) {
    if (made.pages != nullptr) ::munmap(made.pages, made.page_bytes + kPage);
  }
  live_.clear();
  freed_.clear();
  open_.clear();
}

const Allocation* GuardedMemory::find(const void* start, std::size_t bytes) const {
  const auto* const at = static_cast<const char*>(start);
  auto after = live_.upper_bound(at);
  if (after == live_.begin()) return nullptr;
  --after;
  const auto offset = static_cast<std::size_t>(at - after->first);
  if (offset > after->second.bytes || bytes > after->second.bytes - offset) return nullptr;
  return &after->second;
}

bool GuardedMemory::was_freed(const void* start) const {
  const auto* const at = static_cast<const char*>(start);
  auto after = freed_.upper_bound(at);
  if (after == freed_.begin()) return false;
  --after;
  return at < after->first + after->second.bytes;
}

void GuardedMemory::protect(int device, bool open) {
  if (kWatched || !guarded_) return;
  for (const auto& [start, made] : live_) {
    if (made.pages == nullptr || made.device != device) continue;
    ::mprotect(made.pages, made.page_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
}

void GuardedMemory::open(int device) {
  if (open_.insert(device).second) protect(device, true);
}

void GuardedMemory::open_only(int device) {
  for (auto other = open_.begin(); other != open_.end();) {
    if (*other == device) {
      ++other;
      continue;
    }
    protect(*other, false);
    other = open_.erase(other);
  }
  open(device);
}

void GuardedMemory::close() {
  for (const int device : open_) protect(device, false);
  open_.clear();
}

}  // namespace meshwright::standin
