#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "costmodel/kernel/kernel.h"
#include "executor/host_device.h"

// What routers and the loss of an uneven choice compute with, written once for every back end.
namespace meshwright {

// The expert of a choice, whether it had room or not.
MESHWRIGHT_HD inline std::size_t chosen_expert(std::int32_t choice) {
  return static_cast<std::size_t>(choice < 0 ? ~choice : choice);
}

// Of an expert's choices times its sum of shares, in the loss of the whole batch.
struct BalanceFactor {
  double weight = 0, sequence = 1, batch = 1;
  // `choices`: of all tokens of a sequence.
  MESHWRIGHT_HD double of(double choices) const { return weight / (choices * sequence * batch); }
};

inline BalanceFactor balance_factor(const Kernel& kernel, std::int64_t experts) {
  const auto& router = std::get<RouterAttributes>(kernel.attributes);
  return {.weight = router.balance * static_cast<double>(experts),
          .sequence = static_cast<double>(kernel.place[1].size),
          .batch = static_cast<double>(kernel.place[0].size)};
}

// Of a sequence's loss, which every device that has a part of the sequence knows, what it adds.
inline double balance_part(const Kernel& kernel) {
  const DimPlace& labels = kernel.place[1];
  return static_cast<double>(size_of(labels.ranges)) / static_cast<double>(labels.size);
}

// The gradient of a bias is what the step's choices are off an equal share by. By the power of 2
// that all choices of the step do not exceed, it is within the range of 16 bits.
inline double bias_unit(const Kernel& kernel, std::int64_t choices_of_token) {
  const std::int64_t step = kernel.place[0].size * kernel.place[1].size * choices_of_token;
  return 1 / static_cast<double>(std::bit_ceil(static_cast<std::uint64_t>(step)));
}

}  // namespace meshwright
