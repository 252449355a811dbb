#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>

namespace meshwright::standin {

struct Allocation {
  std::size_t bytes = 0;
  std::optional<int> device;  // none: the host's, pinned
  void* pages = nullptr;
  std::size_t page_bytes = 0;
};

// Memory of devices, which only what runs on a device can touch: at other times, after it was
// freed, and beyond its end there is nothing, and whoever goes there dies. (Under the address
// sanitizer it is memory of the processor that the sanitizer watches.) New memory holds bytes of
// 0xff, which is no number in any precision (its first 8 MiB do).
class GuardedMemory {
 public:
  ~GuardedMemory() { clear(); }
  // Before anything is there. False: memory stays open until it is freed.
  void set_guarded(bool guarded) { guarded_ = guarded; }
  void* allocate(std::size_t bytes, std::optional<int> device);
  // Only what `find` has found, by its start.
  void release(void* memory);
  void clear();

  // The allocation that a range is in as a whole; none: in none.
  const Allocation* find(const void* start, std::size_t bytes) const;
  bool is_start(const void* start) const { return live_.contains(static_cast<const char*>(start)); }
  bool was_freed(const void* start) const;

  void open(int device);  // beside those that are
  void open_only(int device);
  void close();

 private:
  void protect(int device, bool open);

  std::map<const char*, Allocation> live_, freed_;
  std::set<int> open_;
  bool guarded_ = true;
};

}  // namespace meshwright::standin
