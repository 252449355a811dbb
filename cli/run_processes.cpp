#include "cli/run_processes.h"

#include <fmt/format.h>

#include "cli/ending.h"
#include "executor/data_source.h"
#include "executor/initial_weights.h"
#include "executor/process/hub.h"
#include "executor/process/member.h"
#include "executor/process/run_device.h"
#include "simulator/lowering/lower.h"

namespace meshwright {
namespace {

void run_own_device(const RunCommandOptions& options, const Session& session,
                    const ChildPlace& place, Member& member) {
  const RunPlan run(options, session);
  const auto devices = devices_of(run.plan());
  const Program program = lower(run.model(), run.plan(), devices.at(place.process));
  run_device(member, {program, devices, place.process}, settings_of(options),
             run_options_of(options, run), random_weights(options.seed),
             RandomTokens(options.seed, run.vocabulary()));
}

}  // namespace

RunResult run_in_processes(const RunCommandOptions& options, const RunPlan& run,
                           const StepProgress& progress) {
  const auto devices = devices_of(run.plan());
  ChildProcesses children(devices.size());
  Hub hub(devices,
          {.lost_after = Seconds(options.lost_after),
           .how_ended = [&](std::size_t process) { return children.how_ended(process); }},
          progress);
  for (std::size_t p = 0; p < devices.size(); ++p) hub.add(p, children.take_connection(p));
  try {
    RunResult result = hub.run();
    children.wait_for_all(Seconds(5.0));
    return result;
  } catch (const RunFailure& failure) {
    // One that is silent will not end by itself.
    children.wait_for_all(Seconds(failure.kind() == RunFailure::Kind::Silent ? 0.5 : 5.0));
    throw;
  }
}

void run_as_process(const RunCommandOptions& options, const Session& session,
                    const ChildPlace& place) {
  Member member(FrameSocket(FileDescriptor(place.connection)));
  try {
    run_own_device(options, session, place, member);
  } catch (const PeerFailure&) {
    throw ToldElsewhere(static_cast<int>(ExitCode::DeviceFailed));
  } catch (...) {
    const Ending ending = ending_of(std::current_exception());
    member.report(static_cast<int>(ending.code), ending.message);
    throw ToldElsewhere(static_cast<int>(ending.code));
  }
}

}  // namespace meshwright
