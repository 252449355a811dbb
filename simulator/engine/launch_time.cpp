#include <algorithm>

#include "simulator/engine/play.h"

namespace meshwright {

double launch_time(const Score& score, const Played& played, std::uint32_t task, std::uint32_t step,
                   double dispatch) {
  const std::uint32_t program = score.tasks[task].program;
  const std::uint32_t first = score.program_first[program];
  const std::uint32_t count = score.program_first[program + 1] - first;
  const HostWait wait = score.host_waits.empty() ? HostWait{} : score.host_waits[task];
  const bool earlier = wait.is_of_step_before(task);
  if (wait.receive == kNoTask || (earlier && step == 0)) {
    return (static_cast<double>(step) * count + (task - first) + 1) * dispatch;
  }
  const auto& spans = played.steps[step - (earlier ? 1 : 0)];
  double resumed = spans[wait.receive].finish.value();
  if (wait.kernel != kNoTask) resumed = std::max(resumed, spans[wait.kernel].finish.value());
  const std::uint32_t launches = earlier ? task + count - wait.receive : task - wait.receive;
  return resumed + launches * dispatch;
}

}  // namespace meshwright
