#pragma once

#include <string>

#include "costmodel/base/json_input.h"
#include "simulator/plan/plan.h"

namespace meshwright {

// The plan file (data/README.md describes it). Reading what was written and writing it again gives
// the same bytes.
std::string plan_text(const Plan& plan);
Plan read_plan(const JsonInput& json);

}  // namespace meshwright
