#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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

// The same for what takes much memory: only those that were asked for latest are kept, of which the
// weights are no more than `most` together, or one.
template <class Key, class Value>
class LatestMemo {
 public:
  explicit LatestMemo(std::size_t most) : most_(most) {}

  template <class Make, class Weigh>
  std::shared_ptr<const Value> get(const Key& key, Make make, Weigh weigh) {
    const std::shared_ptr<MadeOnce<Value>> made = entry_of(key);
    const Value& value = made->get([&] {
      Value one = make();
      add_weight(key, weigh(one));
      return one;
    });
    return {made, &value};
  }

 private:
  // The latest last.
  using Order = std::list<std::pair<Key, std::size_t>>;  // with their weights
  struct Entry {
    std::shared_ptr<MadeOnce<Value>> made = std::make_shared<MadeOnce<Value>>();
    std::optional<typename Order::iterator> place = {};  // none: it is being made
  };

  std::shared_ptr<MadeOnce<Value>> entry_of(const Key& key) {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[key];
    if (entry.place) order_.splice(order_.end(), order_, *entry.place);
    return entry.made;
  }
  void add_weight(const Key& key, std::size_t weight) {
    const std::lock_guard lock(mutex_);
    weight_ += weight;
    entries_[key].place = order_.emplace(order_.end(), key, weight);
    while (weight_ > most_ && order_.size() > 1) {
      entries_.erase(order_.front().first);
      weight_ -= order_.front().second;
      order_.pop_front();
    }
  }

  const std::size_t most_;
  std::mutex mutex_;
  std::map<Key, Entry> entries_;
  std::size_t weight_ = 0;  // of all
  Order order_;
};

}  // namespace meshwright
