#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace meshwright {

// What was made for each key, for several threads: each is made once, by the first that asks, while
// others that want it wait.
template <class Key, class Value>
class SharedMemo {
 public:
  // It stays where it is. `make` may ask for other keys, not for its own.
  template <class Make>
  const Value& get(const Key& key, Make make) {
    Entry& entry = entry_of(key);
    std::call_once(entry.once, [&] { entry.value = make(); });
    return entry.value;
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  struct Entry {
    std::once_flag once;
    Value value;
  };
  Entry& entry_of(const Key& key) {
    const std::lock_guard lock(mutex_);
    return entries_[key];
  }

  mutable std::mutex mutex_;
  std::map<Key, Entry> entries_;
};

// The same for what takes much memory: only the latest are kept.
template <class Key, class Value>
class LatestMemo {
 public:
  explicit LatestMemo(std::size_t most) : most_(most) {}

  template <class Make>
  std::shared_ptr<const Value> get(const Key& key, Make make) {
    const std::shared_ptr<Entry> entry = entry_of(key);
    std::call_once(entry->once, [&] { entry->value = make(); });
    return {entry, &entry->value};
  }

 private:
  struct Entry {
    std::once_flag once;
    Value value;
  };
  std::shared_ptr<Entry> entry_of(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto [found, added] = entries_.try_emplace(key);
    if (!added) return found->second;
    const auto entry = found->second = std::make_shared<Entry>();
    order_.push_back(key);
    if (order_.size() > most_) {
      entries_.erase(order_.front());
      order_.pop_front();
    }
    return entry;
  }

  const std::size_t most_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Entry>> entries_;
  std::deque<Key> order_;  // in which they were asked for first
};

}  // namespace meshwright
