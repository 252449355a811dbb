#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

namespace meshwright {

// A list that is hardly ever longer than N: up to there its values lie in it, so that making and
// copying it takes no memory from the heap. Values are numbers, ids and the like.
template <class Value, std::size_t N>
class ShortVector {
 public:
  using value_type = Value;
  using iterator = Value*;
  using const_iterator = const Value*;

  ShortVector() = default;
  explicit ShortVector(std::size_t size, Value value = {}) {
    resize(size);
    std::fill(begin(), end(), value);
  }
  ShortVector(std::initializer_list<Value> values) : ShortVector(values.begin(), values.end()) {}
  ShortVector(const std::vector<Value>& values) : ShortVector(values.begin(), values.end()) {}
  template <std::forward_iterator Iterator>
  ShortVector(Iterator first, Iterator last) {
    resize(static_cast<std::size_t>(std::distance(first, last)));
    std::copy(first, last, begin());
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Value* data() { return size_ <= N ? short_.data() : long_.data(); }
  const Value* data() const { return size_ <= N ? short_.data() : long_.data(); }
  iterator begin() { return data(); }
  iterator end() { return data() + size_; }
  const_iterator begin() const { return data(); }
  const_iterator end() const { return data() + size_; }
  Value& operator[](std::size_t i) { return data()[i]; }
  const Value& operator[](std::size_t i) const { return data()[i]; }
  Value& front() { return *begin(); }
  const Value& front() const { return *begin(); }
  Value& back() { return *(end() - 1); }
  const Value& back() const { return *(end() - 1); }

  void resize(std::size_t size) {
    if (size > N) {
      if (size_ <= N) long_.assign(begin(), end());
      long_.resize(size);
    } else if (size_ > N) {
      std::copy_n(long_.begin(), size, short_.begin());
    } else {
      for (std::size_t i = size_; i < size; ++i) short_[i] = {};
    }
    size_ = size;
  }
  void push_back(Value value) {
    resize(size_ + 1);
    back() = value;
  }
  void pop_back() { resize(size_ - 1); }
  iterator insert(const_iterator place, Value value) {
    const auto at = place - begin();
    push_back(value);
    std::rotate(begin() + at, end() - 1, end());
    return begin() + at;
  }
  iterator erase(const_iterator place) {
    const auto at = place - begin();
    std::copy(begin() + at + 1, end(), begin() + at);
    pop_back();
    return begin() + at;
  }

  friend bool operator==(const ShortVector& a, const ShortVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend auto operator<=>(const ShortVector& a, const ShortVector& b) {
    return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::size_t size_ = 0;
  std::array<Value, N> short_;
  std::vector<Value> long_;  // all values, where there are more than N
};

}  // namespace meshwright
