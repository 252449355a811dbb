#include "simulator/report/held_buffers.h"

#include <algorithm>
#include <optional>

namespace meshwright {

std::vector<BufferId> held_buffers(const Program& program, const DeviceTimeline& timeline,
                                   Seconds step, Seconds moment) {
  std::vector<std::optional<TaskSpan>> lives(program.buffers.size());
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    for (const BufferId id : program.operands_of(program.tasks[t])) {
      auto& life = lives[id.index()];
      if (!life) life = timeline.tasks[t];
      life->start = std::min(life->start, timeline.tasks[t].start);
      life->finish = std::max(life->finish, timeline.tasks[t].finish);
    }
  }
  const auto holds = [](const TaskSpan& life, Seconds at) {
    return life.start <= at && at < life.finish;
  };
  std::vector<BufferId> held;
  for (std::size_t b = 0; b < lives.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.space == Space::Host) continue;
    const bool now = lives[b] && (holds(*lives[b], moment) || holds(*lives[b], moment + step));
    if (buffer.persistent || now) held.emplace_back(b);
  }
  return held;
}

}  // namespace meshwright
