#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace meshwright {

// Made by the first thread that asks, while others that want it wait. It stays where it is.
template <class Value>
class MadeOnce {
 public:
  template <class Make>
  const Value& get(Make make) {
    std::call_once(once_, [&] { value_ = make(); });
    return value_;
  }

 private:
  std::once_flag once_;
  Value value_;
};

// What was made for each key, for several threads.
template <class Key, class Value>
class SharedMemo {
 public:
  // It stays where it is. `make` may ask for other keys, not for its own.
  template <class Make>
  const Value& get(const Key& key, Make make) {
    return entry_of(key).get(make);
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  MadeOnce<Value>& entry_of(const Key& key) {
    const std::lock_guard lock(mutex_);
    return entries_[key];
  }

  mutable std::mutex mutex_;
  std::map<Key, MadeOnce<Value>> entries_;
};

// The same for what takes much memory: only the latest are kept, of which the weights are no more
// than `most` together, or one.
template <class Key, class Value>
class LatestMemo {
 public:
  explicit LatestMemo(std::size_t most) : most_(most) {}

  template <class Make, class Weigh>
  std::shared_ptr<const Value> get(const Key& key, Make make, Weigh weigh) {
    const std::shared_ptr<MadeOnce<Value>> entry = entry_of(key);
    const Value& value = entry->get([&] {
      Value made = make();
      add_weight(key, weigh(made));
      return made;
    });
    return {entry, &value};
  }

 private:
  std::shared_ptr<MadeOnce<Value>> entry_of(const Key& key) {
    const std::lock_guard lock(mutex_);
    auto& entry = entries_[key];
    if (!entry) entry = std::make_shared<MadeOnce<Value>>();
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
  std::map<Key, std::shared_ptr<MadeOnce<Value>>> entries_;
  std::size_t weight_ = 0;                         // of all
  std::deque<std::pair<Key, std::size_t>> order_;  // in which they were made, with their weights
};

}  // namespace meshwright
