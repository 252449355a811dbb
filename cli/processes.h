#pragma once

#include <functional>
#include <optional>

#include "executor/process/child_processes.h"
#include "executor/process/hub.h"
#include "executor/process/launched_place.h"
#include "executor/process/member.h"
#include "executor/process/process_network.h"
#include "executor/step_results.h"

namespace meshwright {

// The end of a process that has told another one why.
class ToldElsewhere {
 public:
  explicit ToldElsewhere(int code) : code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

// What each of several processes does: `machines` is how it connects with others that may be on
// other ones.
struct ProcessPlace {
  Member& member;
  std::size_t process = 0, count = 1;
  std::optional<SeveralMachines> machines;
};
using ProcessWork = std::function<void(const ProcessPlace&)>;

// Starts this program so many times more with the same words; each finds by child_place that it is
// one of these. Watches them until their end. Throws RunFailure.
RunResult watch_processes(std::size_t count, const WatchLimits& limits,
                          const StepProgress& progress);
// Throws ToldElsewhere if the work does not come to its end.
void work_as_child(const ChildPlace& place, const ProcessWork& work);

// The work of a process that a launcher such as mpirun or srun started. The first one watches the
// others, and returns what came of it.
std::optional<RunResult> work_in_cluster(const LaunchedPlace& place, const WatchLimits& limits,
                                         const StepProgress& progress, const ProcessWork& work);

// As launched_place; UsageError where processes are to be started besides.
std::optional<LaunchedPlace> launched_without(const std::optional<std::int64_t>& processes);

}  // namespace meshwright
