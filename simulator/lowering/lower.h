#pragma once

#include <span>
#include <vector>

#include "costmodel/model/model.h"
#include "simulator/plan/plan.h"
#include "simulator/program/program.h"

namespace meshwright {

// What each device does in one step of a plan that check_plan has nothing against. Depends on
// nothing but its arguments: a saved plan lowers to the same programs everywhere.
Program lower(const Model& model, const Plan& plan, DeviceId device);

// Of these devices, in their order.
std::vector<Program> lower_devices(const Model& model, const Plan& plan,
                                   std::span<const DeviceId> devices);

// Of all the plan's devices, by device.
std::vector<Program> lower_all(const Model& model, const Plan& plan);

}  // namespace meshwright
