#pragma once

#include <compare>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace meshwright {

// A list that is copied often and changed rarely: copies have its items in common. A change makes
// new items, so that no other list sees it, whatever its thread.
template <class T>
class SharedList {
 public:
  using value_type = T;
  using Items = std::vector<T>;

  SharedList() = default;
  SharedList(Items items)
      : items_(items.empty() ? nullptr : std::make_shared<const Items>(std::move(items))) {}
  SharedList(std::initializer_list<T> items) : SharedList(Items(items)) {}

  operator const Items&() const { return items(); }
  auto begin() const { return items().begin(); }
  auto end() const { return items().end(); }
  std::size_t size() const { return items_ ? items_->size() : 0; }
  bool empty() const { return !items_; }

  void clear() { items_.reset(); }
  void push_back(T item) {
    Items more = items();
    more.push_back(std::move(item));
    *this = std::move(more);
  }

  friend bool operator==(const SharedList& a, const SharedList& b) {
    return a.items_ == b.items_ || a.items() == b.items();
  }
  friend auto operator<=>(const SharedList& a, const SharedList& b) {
    return a.items_ == b.items_ ? std::strong_ordering::equal : a.items() <=> b.items();
  }

 private:
  const Items& items() const {
    static const Items kNone;
    return items_ ? *items_ : kNone;
  }

  std::shared_ptr<const Items> items_;  // null: none
};

}  // namespace meshwright
