#pragma once

#include <functional>
#include <vector>

#include "executor/selftest/self_check.h"

namespace meshwright {

// Every kind of transfer among the first 2 to `devices` devices, of whole numbers, whose sums are
// exact in any order. `tried` is called after each.
std::vector<SelfCheck> check_transfers(const DevicesMaker& make_devices, std::int64_t devices,
                                       const std::function<void(const SelfCheck&)>& tried);

}  // namespace meshwright
