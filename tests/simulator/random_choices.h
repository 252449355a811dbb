#pragma once

#include <rapidcheck.h>

#include <string>

#include "tests/simulator/small_plans.h"

namespace meshwright {

// A plan drawn by seed for a model of four layers: degrees, chunks, micro-batches, ZeRO, buckets,
// schedule.
struct RandomChoices {
  std::string text;
  std::int64_t global_batch = 1;
};

inline RandomChoices random_choices() {
  const auto between = [](std::int64_t low, std::int64_t high) {
    return *rc::gen::inRange<std::int64_t>(low, high + 1);
  };
  const std::int64_t dp = between(1, 3), tp = between(1, 3), pp = between(1, 4);
  const std::int64_t virtual_stages = pp == 2 ? between(1, 2) : 1;
  const std::int64_t microbatch = between(1, 2), count = between(1, 5);
  const std::string layers = random_layers(4, pp * virtual_stages, between);
  const std::string text =
      "dp=" + std::to_string(dp) + ",tp=" + std::to_string(tp) + ",pp=" + std::to_string(pp) +
      ",zero=" + std::to_string(between(0, 3)) + ",prefetch=" + std::to_string(between(0, 3)) +
      ",microbatch=" + std::to_string(microbatch) +
      ",virtual_stages=" + std::to_string(virtual_stages) +
      (between(0, 1) ? ",layers=" + layers : "") +
      ",schedule=" + (between(0, 1) ? "1f1b" : "gpipe") +
      ",bucket=" + std::to_string(between(1, 40)) +
      " KiB,overlap=" + (between(0, 1) ? "true" : "false") +
      (dp * tp * pp <= 32 && between(0, 2) == 0
           ? std::string(",cp=2,context=") + (between(0, 1)              ? "ring"
                                              : tp == 1 && between(0, 1) ? "ulysses"
                                                                         : "rsa")
           : "");
  return {text, dp * microbatch * count};
}

}  // namespace meshwright
