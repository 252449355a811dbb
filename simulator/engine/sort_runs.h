#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace meshwright {

// Sorts by what `key` says of a value and keeps equal ones in their order. Merges what is ascending
// already: n log r for r such runs, and times of a few lanes one after the other are as many.
template <class Value, class Key>
void sort_runs(std::vector<Value>& values, Key key) {
  const auto earlier = [&](const Value& a, const Value& b) { return key(a) < key(b); };
  std::vector<std::size_t> ends;  // of runs
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (earlier(values[i], values[i - 1])) ends.push_back(i);
  }
  if (ends.empty()) return;
  ends.push_back(values.size());
  std::vector<Value> merged(values.size());
  while (ends.size() > 1) {
    std::vector<std::size_t> joined;
    auto first = values.begin();
    auto to = merged.begin();
    for (std::size_t r = 0; r < ends.size(); r += 2) {
      const std::size_t end = ends[std::min(r + 1, ends.size() - 1)];
      const auto middle = values.begin() + static_cast<std::ptrdiff_t>(ends[r]);
      const auto last = values.begin() + static_cast<std::ptrdiff_t>(end);
      to = std::merge(first, middle, middle, last, to, earlier);
      first = last;
      joined.push_back(end);
    }
    std::swap(values, merged);
    ends = std::move(joined);
  }
}

}  // namespace meshwright
