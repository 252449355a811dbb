#include "simulator/report/measured_timeline.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "simulator/engine/meetings.h"

namespace meshwright {
namespace {

// Calls `see(meeting, span)` for every transfer.
template <class See>
void for_transfers(std::span<const Program> programs, const Meetings& meetings, Timeline& timeline,
                   See see) {
  for (std::size_t p = 0; p < programs.size(); ++p) {
    std::size_t turn = 0;
    for (std::size_t t = 0; t < programs[p].tasks.size(); ++t) {
      if (programs[p].tasks[t].kind != TaskKind::Transfer) continue;
      see(meetings.of_program[p][turn++], timeline.devices[p].tasks[t]);
    }
  }
}

}  // namespace

Timeline with_waiting_idle(std::span<const Program> programs, Timeline measured) {
  assert(programs.size() == measured.devices.size());
  const Meetings meetings = find_meetings(programs);
  std::vector<Seconds> ready(meetings.members.size());
  for_transfers(programs, meetings, measured, [&](std::uint32_t meeting, const TaskSpan& span) {
    ready[meeting] = std::max(ready[meeting], span.start);
  });
  for_transfers(programs, meetings, measured, [&](std::uint32_t meeting, TaskSpan& span) {
    span.start = std::min(std::max(span.start, ready[meeting]), span.finish);
  });
  return measured;
}

}  // namespace meshwright
