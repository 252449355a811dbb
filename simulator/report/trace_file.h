#pragma once

#include <span>
#include <string>

#include "simulator/program/program.h"
#include "simulator/program/timeline.h"

namespace meshwright {

// A timeline in the JSON form of Chrome's trace events, which ui.perfetto.dev and chrome://tracing
// open: a process for each device, a thread for each of its lanes, a complete event for each task
// and counters of memory by component. Times are rounded to nanoseconds, as those programs do, in
// such a way that tasks of a lane do not come to overlap.
// Format: "Trace Event Format", Google, sections "Complete Events", "Counter Events", "Metadata".
std::string trace_text(std::span<const Program> programs, const Timeline& timeline);

}  // namespace meshwright
