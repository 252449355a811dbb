#include <algorithm>

#include "simulator/engine/play.h"

namespace meshwright {

double launch_time(const Score& score, const Played& played, std::uint32_t task, std::uint32_t step,
                   double dispatch) {
  const std::uint32_t end = score.program_first[score.tasks[task].program + 1];
  const double of_step = score.launched[end - 1];
  const double launched = score.launched[task];
  const HostWait wait = score.host_waits.empty() ? HostWait{} : score.host_waits[task];
  const bool earlier = wait.is_of_step_before(task);
  if (wait.receive == kNoTask || (earlier && step == 0)) {
    return (step * of_step + launched) * dispatch;
  }
  const auto& spans = played.steps[step - (earlier ? 1 : 0)];
  double resumed = spans[wait.receive].finish.value();
  if (wait.kernel != kNoTask) resumed = std::max(resumed, spans[wait.kernel].finish.value());
  const double since = launched - score.launched[wait.receive] + (earlier ? of_step : 0);
  return resumed + since * dispatch;
}

}  // namespace meshwright
