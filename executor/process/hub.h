#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "executor/process/frame_socket.h"
#include "executor/process/member.h"
#include "executor/process/run_failure.h"
#include "executor/step_results.h"

namespace meshwright {

// What the processes of a run say to the one that watches them, and it to them: JSON objects with a
// "kind".
//   from a process: join {host, process}; device {index}; give {text};
//                   alive {at, begun, waits, longest, clock}; step {step, record}; failed
//                   {code, message}; numbers {message, step}; unreachable {message}; done
//   to a process:   given {texts}; alive {name, words}; explain {step};
//                   failed {failure, code, message}; end
// A process tells that it is alive every second, and so does the hub.

struct WatchLimits {
  Seconds lost_after{15.0};  // without a sign of life
  // At one task, and besides the longest that the task takes by itself on any machine.
  Seconds stuck_after{600.0};
};

struct HubOptions {
  WatchLimits limits;
  // How a process ended whose connection is closed, in words after its name.
  std::function<std::string(std::size_t process)> how_ended;
  // Who watches, where that is one of the processes itself.
  std::optional<std::size_t> self;
};

// Watches the processes of a run, hands texts round among them and puts their steps together.
class Hub {
 public:
  // Of so many processes, numbered from 0.
  Hub(std::size_t processes, HubOptions options, const StepProgress& progress);

  void add(std::size_t process, FrameSocket socket);
  bool has(std::size_t process) const { return processes_[process].socket.has_value(); }
  // Tells those that are there that it is alive, if it is time to.
  void greet();
  // Those that are there are told why nothing comes of it, and it is thrown.
  [[noreturn]] void end_with(const RunFailure& failure);
  // With all of them there. Until all are done. Throws RunFailure when one is lost or fails, after
  // the others were told.
  RunResult run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Process {
    std::optional<FrameSocket> socket;
    Clock::time_point heard;
    DeviceId device;            // that it has
    std::string where;          // "process 17 on host a"
    Whereabouts place;          // when it was last heard of
    Clock::time_point moved;    // when it was first heard of at that task
    std::int64_t finished = 0;  // steps
    // What its clock is behind this process's, and at most the way of a message more.
    std::optional<Seconds> behind;
    bool done = false;
  };

  void wait() const;
  void read(std::size_t process);
  void take(std::size_t process, const std::string& text);
  void take_given(std::size_t process, std::string text);
  void have_explained(std::int64_t step, const std::string& message);
  void check_silence(std::size_t process);
  void check_progress();
  bool is_at_one_task_too_long(const Process& process) const;
  void take_step(std::size_t process, std::int64_t step, StepRecord record);
  void wait_for_leaving(std::chrono::milliseconds limit);
  void send_all(const std::string& text);
  static std::string name_of(const Process& process);
  static std::string steps_of(const Process& process);
  static std::string last_words(const Process& process);

  HubOptions options_;
  StepResults results_;
  std::vector<Process> processes_;
  std::map<std::size_t, std::string> given_;  // by process, until all have
  Clock::time_point next_greeting_;
  std::optional<RunFailure> first_;  // that a step is run again to explain
};

}  // namespace meshwright
