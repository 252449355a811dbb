#pragma once

#include "cli/planned_run.h"
#include "cli/session.h"

namespace meshwright {

// Lowers and checks the programs of all devices, as many as the plan has, and prints what they are.
void dry_run(const PlannedRun& run, const Session& session);

}  // namespace meshwright
