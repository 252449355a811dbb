#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace meshwright {

// What a seed draws: the same on every machine.
class RandomDraws {
 public:
  explicit RandomDraws(std::uint32_t seed) : engine_(seed) {}

  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(engine_)];
  }
  std::uint64_t below(std::uint64_t end) {
    return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(engine_);
  }
  bool yes(double share = 0.5) { return std::bernoulli_distribution(share)(engine_); }

 protected:
  std::mt19937 engine_;
};

}  // namespace meshwright
