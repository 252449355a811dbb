#pragma once

#include <vector>

#include "costmodel/model/model.h"
#include "simulator/lowering/pipeline_order.h"
#include "simulator/lowering/planned_graph.h"
#include "simulator/plan/plan.h"
#include "simulator/program/program.h"

namespace meshwright {

// What each device does in one step of a plan that check_plan has nothing against. Depends on
// nothing but model and plan: a saved plan lowers to the same programs everywhere.
Program lower(const Model& model, const Plan& plan, DeviceId device);

// Of all the plan's devices, by device.
std::vector<Program> lower_all(const Model& model, const Plan& plan);

// The same for some devices, one after the other: what they have in common is found once. The plan
// must outlive it.
class Lowering {
 public:
  Lowering(const Model& model, const Plan& plan);
  const PlannedGraph& planned() const { return planned_; }
  Program program(DeviceId device) const;

 private:
  const Plan& plan_;
  const PlannedGraph planned_;
  const UnitTimes times_;
};

}  // namespace meshwright
