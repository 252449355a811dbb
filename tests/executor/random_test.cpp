#include "executor/random.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

namespace meshwright {

TEST_CASE("draws depend on seed, name, step and index, and on nothing else") {
  const RandomKey key = random_key(1, "a", 2);
  CHECK(random_bits(key, 7) == random_bits(random_key(1, "a", 2), 7));
  const std::set<std::uint64_t> draws = {
      random_bits(key, 7),
      random_bits(key, 8),
      random_bits(random_key(2, "a", 2), 7),
      random_bits(random_key(1, "b", 2), 7),
      random_bits(random_key(1, "a", 3), 7),
      random_bits(random_key(1, "a"), 7),
  };
  CHECK(draws.size() == 6);
}

TEST_CASE("a change of one bit of the index changes half of the bits of a draw") {
  const RandomKey key = random_key(3, "weight");
  for (int bit = 0; bit < 64; ++bit) {
    int changed = 0;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      changed += std::popcount(random_bits(key, i) ^ random_bits(key, i ^ (1ull << bit)));
    }
    // 64,000 fair coins: mean 32,000, deviation 126.
    CHECK(std::abs(changed - 32000) < 6 * 126);
  }
}

TEST_CASE("uniform and normal draws have their moments") {
  const RandomKey key = random_key(4, "weight");
  constexpr int count = 1000000;
  double uniform = 0, normal = 0, square = 0, fourth = 0, neighbours = 0, before = 0;
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    uniform += random_uniform(key, index);
    const double x = random_normal(key, index);
    normal += x;
    square += x * x;
    fourth += x * x * x * x;
    neighbours += x * before;
    before = x;
  }
  // Deviations of these means over a million draws, times five.
  CHECK(uniform / count == Approx(0.5).margin(5 * 0.289e-3));
  CHECK(normal / count == Approx(0).margin(5e-3));
  CHECK(square / count == Approx(1).margin(5 * 1.42e-3));
  CHECK(fourth / count == Approx(3).margin(5 * 9.8e-3));
  CHECK(neighbours / count == Approx(0).margin(5e-3));
}

TEST_CASE("dropout drops its share") {
  const RandomKey key = random_key(5, "dropout", 0);
  int dropped = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) dropped += dropout_factor(key, i, 0.1) == 0;
  CHECK(std::abs(dropped - 10000) < 5 * 95);  // deviation sqrt(100000 * 0.1 * 0.9)
  CHECK(dropout_factor(key, 0, 0.0) == 1);
}

}  // namespace meshwright
