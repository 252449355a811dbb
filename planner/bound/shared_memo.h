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

// The same for what takes much memory: only the latest are kept, of which the weights are no more
// than `most` together, or one.
template <class Key, class Value>
class LatestMemo {
 public:
  explicit LatestMemo(std::size_t most) : most_(most) {}

  template <class Make, class Weigh>
  std::shared_ptr<const Value> get(const Key& key, Make make, Weigh weigh) {
    const std::shared_ptr<Entry> entry = entry_of(key);
    std::call_once(entry->once, [&] {
      entry->value = make();
      add_weight(key, weigh(entry->value));
    });
    return {entry, &entry->value};
  }

 private:
  struct Entry {
    std::once_flag once;
    Value value;
  };
  std::shared_ptr<Entry> entry_of(const Key& key) {
    const std::lock_guard lock(mutex_);
    auto& entry = entries_[key];
    if (!entry) entry = std::make_shared<Entry>();
    return entry;
  }
  void add_weight(const Key& key, std::size_t weight) {
    const std::lock_guard lock(mutex_);
    weight_ += weight;
    order_.emplace_back(key, weight);
    while (weight_ > most_ && order_.size() > 1) {
      entries_.erase(order_.front().first);
      weight_ -= order_.front().second;
      order_.pop_front();
    }
  }

  const std::size_t most_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Entry>> entries_;
  std::size_t weight_ = 0;                         // of all
  std::deque<std::pair<Key, std::size_t>> order_;  // in which they were made, with their weights
};

}  // namespace meshwright
