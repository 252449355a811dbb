#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "executor/host_device.h"

// Random numbers by counter: a draw is a function of its key and of the element's place in the
// whole tensor, so it does not depend on how the tensor is cut or on what was drawn before.
namespace meshwright {

// The finalizer of splitmix64 (Steele, Lea, Flood 2014; constants by Stafford, variant 13).
MESHWRIGHT_HD constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

inline constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15u;

// FNV-1a.
constexpr std::uint64_t name_hash(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

struct RandomKey {
  std::uint64_t start = 0, tweak = 0;
  friend bool operator==(const RandomKey&, const RandomKey&) = default;
};

// What belongs to the run and not to one of its steps, such as initial weights.
constexpr RandomKey random_key(std::uint64_t seed, std::string_view name) {
  const std::uint64_t start = mix_bits(mix_bits(seed + kGoldenRatio) ^ name_hash(name));
  return {start, mix_bits(start + kGoldenRatio)};
}
// What belongs to one step of a run.
MESHWRIGHT_HD constexpr RandomKey key_in_step(RandomKey run, std::int64_t step) {
  const auto count = static_cast<std::uint64_t>(step) + 1;
  const std::uint64_t start = mix_bits(run.start ^ mix_bits(run.tweak + count * kGoldenRatio));
  return {start, mix_bits(start + kGoldenRatio)};
}
constexpr RandomKey random_key(std::uint64_t seed, std::string_view name, std::int64_t step) {
  return key_in_step(random_key(seed, name), step);
}

// The key's own member of the splitmix64 sequence, mixed once more so that two keys do not give
// shifted copies of one sequence.
MESHWRIGHT_HD constexpr std::uint64_t random_bits(RandomKey key, std::uint64_t index) {
  return mix_bits(mix_bits(key.start + index * kGoldenRatio) ^ key.tweak);
}

// In [0, 1).
MESHWRIGHT_HD constexpr double random_uniform(RandomKey key, std::uint64_t index) {
  return static_cast<double>(random_bits(key, index) >> 11) * 0x1p-53;
}

// Mean 0 and deviation 1 (Box and Muller 1958); takes two draws of the key.
MESHWRIGHT_HD inline double random_normal(RandomKey key, std::uint64_t index) {
  const double radius = 1.0 - random_uniform(key, 2 * index);  // in (0, 1]
  const double angle = 2 * std::numbers::pi * random_uniform(key, 2 * index + 1);
  return std::sqrt(-2 * std::log(radius)) * std::cos(angle);
}

// What a dropped-out element is multiplied by.
MESHWRIGHT_HD constexpr double dropout_factor(RandomKey key, std::uint64_t index,
                                              double probability) {
  return random_uniform(key, index) < probability ? 0.0 : 1.0 / (1.0 - probability);
}

}  // namespace meshwright
