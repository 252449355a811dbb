#pragma once

#include "cli/run_plan.h"
#include "cli/session.h"

namespace meshwright {

// Lowers and checks the programs of all devices, as many as the plan has, and prints what they are.
void dry_run(const RunPlan& run, const Session& session);

}  // namespace meshwright
