#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/session.h"
#include "costmodel/base/precision.h"
#include "executor/selftest/self_check.h"

namespace meshwright {

// What is tested.
struct SelfTestDevices {
  std::string kind = "cpu";  // as `run --device` has it
  std::int64_t count = 1;
  std::vector<Precision> precisions = {Precision::FP64, Precision::FP32, Precision::BF16};
};

// Trains small models by plans for up to so many devices and compares each loss with the stored one
// (data/selftest), and the memory that was planned with what was used. `tried` is called after
// each.
std::vector<SelfCheck> check_training(const SelfTestDevices& devices, const Session& session,
                                      const std::function<void(const SelfCheck&)>& tried);

}  // namespace meshwright
