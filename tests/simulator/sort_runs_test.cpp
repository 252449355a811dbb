#include "simulator/engine/sort_runs.h"

#include <catch2/catch.hpp>
#include <random>

namespace meshwright {

TEST_CASE("runs are sorted as a stable sort sorts") {
  struct Value {
    int key = 0, place = 0;
    bool operator==(const Value&) const = default;
  };
  std::mt19937 random(5);
  for (int seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    std::vector<Value> values;
    const int runs = static_cast<int>(random() % 6);
    for (int run = 0; run < runs; ++run) {
      int key = static_cast<int>(random() % 10);
      for (int i = static_cast<int>(random() % 12); i-- > 0;) {
        values.push_back({key, static_cast<int>(values.size())});
        key += static_cast<int>(random() % 3);
      }
    }
    std::vector<Value> expected = values;
    std::ranges::stable_sort(expected, {}, &Value::key);
    sort_runs(values, [](const Value& value) { return value.key; });
    CHECK(values == expected);
  }
}

}  // namespace meshwright
