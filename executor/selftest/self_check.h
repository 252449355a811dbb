#pragma once

#include <functional>
#include <string>
#include <vector>

#include "executor/device.h"

namespace meshwright {

// What makes those devices, which run together.
using DevicesMaker = std::function<DeviceMaker(const std::vector<DeviceId>& devices)>;

// One thing that was tried on a device, and how far it was from what it should give.
struct SelfCheck {
  std::string part;     // "kernels", "transfers", "training" or "memory"
  std::string name;     // within it
  double error = 0;     // the largest relative difference
  double limit = 0;     // up to which it is rounding
  std::string problem;  // what went wrong instead; empty: nothing

  bool passed() const { return problem.empty() && error <= limit; }
};

}  // namespace meshwright
