#pragma once

#include <string>
#include <vector>

#include "simulator/plan/plan.h"

namespace meshwright {

// What is wrong with the orders in which a plan's slots work, in words. Its slots and chunks must
// be right.
std::vector<std::string> check_order(const Plan& plan);

}  // namespace meshwright
