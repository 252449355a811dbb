#pragma once

#include <string>
#include <vector>

#include "costmodel/base/json_input.h"
#include "costmodel/model/op.h"
#include "simulator/plan/plan.h"

namespace meshwright {

// The plan file (data/README.md describes it) of a plan for a model with these dimensions. Reading
// what was written and writing it again gives the same bytes.
std::string plan_text(const Plan& plan, const std::vector<Dim>& dims);
Plan read_plan(const JsonInput& json, const std::vector<Dim>& dims);

}  // namespace meshwright
