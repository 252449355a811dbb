#include "cli/processes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <system_error>

#include "cli/ending.h"
#include "cli/library_folders.h"
#include "cli/session.h"
#include "cli/signal_watch.h"
#include "executor/process/meeting.h"
#include "executor/process/mpi_loader.h"
#include "executor/transport.h"

namespace meshwright {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTimeToJoin(60);

// Tells the hub what the work throws. What only this process knows, since the hub is gone, it
// throws itself.
void report_to(Member& member, const std::function<void()>& work) {
  try {
    work();
  } catch (const PeerFailure&) {
    const auto why = member.called_off();
    if (!why) throw;
    if (!why->told) throw RunFailure(why->failure);
    throw ToldElsewhere(static_cast<int>(exit_code_of(why->failure)));
  } catch (...) {
    const Ending ending = ending_of(std::current_exception());
    member.report(static_cast<int>(ending.code), ending.message);
    throw ToldElsewhere(static_cast<int>(ending.code));
  }
}

MeetingNotice notice_of(const LaunchedPlace& place) {
  const bool by_mpi = place.launcher == LaunchedPlace::Launcher::OpenMpi;
  return {place, by_mpi ? load_mpi_broadcast(library_folders(), place.count) : std::nullopt};
}

std::pair<FileDescriptor, FileDescriptor> own_connection() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::system_error(errno, std::generic_category(), "a connection cannot be made");
  }
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// Until all have joined.
void gather(Hub& hub, Listener& listener, std::size_t count) {
  const auto until = SteadyClock::now() + kTimeToJoin;
  for (std::size_t joined = 1; joined < count;) {
    hub.greet();
    auto next =
        listener.accept(std::min(until, SteadyClock::now() + std::chrono::milliseconds(200)));
    if (next && next->process < count && !hub.has(next->process)) {
      hub.add(next->process, FrameSocket(std::move(next->connection)));
      ++joined;
    }
    if (SteadyClock::now() < until || joined == count) continue;
    std::vector<std::size_t> missing;
    for (std::size_t p = 0; p < count; ++p) {
      if (!hub.has(p)) missing.push_back(p);
    }
    hub.end_with({RunFailure::Kind::Network,
                  fmt::format("process {} of {} {} not come within {} s", fmt::join(missing, ", "),
                              count, missing.size() == 1 ? "has" : "have", kTimeToJoin.count())});
  }
}

// What the first process does besides its work, in a thread of its own: all others rely on it
// while it computes.
class WatchedCluster {
 public:
  WatchedCluster(const LaunchedPlace& place, const WatchLimits& limits,
                 const StepProgress& progress)
      : listener_(place.one_machine, random_token()),
        hub_(place.count, {.limits = limits, .how_ended = {}, .self = place.process}, progress),
        notice_(notice_of(place)) {
    auto [own, other] = own_connection();
    connection_.emplace(std::move(own));
    hub_.add(place.process, FrameSocket(std::move(other)));
    notice_.publish(listener_.point());
    result_ = std::async(std::launch::async, [this, count = place.count] { return run(count); });
  }

  FrameSocket take_connection() { return FrameSocket(std::move(*connection_)); }
  const RunToken& token() const { return listener_.point().token; }
  // Throws RunFailure.
  RunResult result() { return result_.get(); }

 private:
  RunResult run(std::size_t count) {
    try {
      gather(hub_, listener_, count);
    } catch (...) {
      notice_.withdraw();
      throw;
    }
    notice_.withdraw();
    return watch();
  }
  // Where what comes of a step cannot be written, the others are told.
  RunResult watch() {
    try {
      return hub_.run();
    } catch (const RunFailure&) {
      throw;
    } catch (...) {
      const Ending ending = ending_of(std::current_exception());
      hub_.end_with({RunFailure::Kind::Reported, ending.message, static_cast<int>(ending.code)});
    }
  }

  Listener listener_;
  Hub hub_;
  MeetingNotice notice_;
  std::optional<FileDescriptor> connection_;
  std::future<RunResult> result_;
};

RunResult work_and_watch(const LaunchedPlace& place, const WatchLimits& limits,
                         const StepProgress& progress, const ProcessWork& work) {
  WatchedCluster watched(place, limits, progress);
  try {
    Member member(watched.take_connection());
    const ProcessPlace own{member, place.process, place.count,
                           SeveralMachines{watched.token(), place.one_machine}};
    report_to(member, [&] { work(own); });
  } catch (const ToldElsewhere&) {
    watched.result();  // throws what was told
    throw;
  }
  return watched.result();
}

void work_for_first(const LaunchedPlace& place, Seconds lost_after, const ProcessWork& work) {
  RunToken token{};
  FrameSocket socket(notice_of(place).join_first(SteadyClock::now() + kTimeToJoin, token));
  Member member(std::move(socket), lost_after);
  const ProcessPlace own{member, place.process, place.count,
                         SeveralMachines{token, place.one_machine}};
  report_to(member, [&] { work(own); });
}

}  // namespace

RunResult watch_processes(std::size_t count, const WatchLimits& limits,
                          const StepProgress& progress) {
  ChildProcesses children(count);
  Hub hub(count,
          {.limits = limits,
           .how_ended = [&](std::size_t process) { return children.how_ended(process); },
           .self = {}},
          progress);
  for (std::size_t p = 0; p < count; ++p) hub.add(p, children.take_connection(p));
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

void work_as_child(const ChildPlace& place, const ProcessWork& work) {
  Member member(FrameSocket(FileDescriptor(place.connection)));
  report_to(member, [&] { work({member, place.process, place.count, {}}); });
}

std::optional<RunResult> work_in_cluster(const LaunchedPlace& place, const WatchLimits& limits,
                                         const StepProgress& progress, const ProcessWork& work) {
  // A launcher that sees a process die asks the others to end. What it was is said first.
  const SignalWatch signals;
  const std::stop_callback end_soon(signals.token(), [&signals] {
    ::usleep(500'000);
    ::_exit(128 + signals.signal().value_or(0));
  });
  if (place.process == 0) return work_and_watch(place, limits, progress, work);
  work_for_first(place, limits.lost_after, work);
  return std::nullopt;
}

std::optional<LaunchedPlace> launched_without(const std::optional<std::int64_t>& processes) {
  auto place = launched_place();
  if (!place || !processes) return place;
  throw UsageError(
      fmt::format("--processes {}: {} processes were started already", *processes, place->count));
}

}  // namespace meshwright
