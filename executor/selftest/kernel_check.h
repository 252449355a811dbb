#pragma once

#include <functional>
#include <vector>

#include "executor/selftest/self_check.h"

namespace meshwright {

// Every kernel on the first device, in a precision, against this processor's in fp64. `tried` is
// called after each.
std::vector<SelfCheck> check_kernels(const DeviceMaker& make_device, Precision precision,
                                     const std::function<void(const SelfCheck&)>& tried);

}  // namespace meshwright
