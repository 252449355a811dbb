#pragma once

#include "costmodel/price/software.h"
#include "simulator/choices/plan_choices.h"
#include "simulator/engine/engine_options.h"
#include "simulator/report/report.h"

namespace meshwright {

// What a software does where a plan does not say.
PlanChoices choices_of(const Software& software);
// How it plays a plan, and what it holds besides. One step; a caller may repeat it.
EngineOptions engine_options_of(const Software& software);
MemoryOverheads overheads_of(const Software& software);

}  // namespace meshwright
