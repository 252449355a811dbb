#pragma once

#include "cli/planned_run.h"
#include "cli/session.h"

namespace meshwright {

// Lowers and checks the programs of all devices, as many as the plan has, and prints what they are;
// with `cuda` also what GPUs need beside them for transfers.
void dry_run(const PlannedRun& run, bool cuda, const Session& session);

}  // namespace meshwright
