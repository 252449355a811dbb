#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "executor/process/frame_socket.h"
#include "executor/process/run_failure.h"
#include "executor/step_results.h"

namespace meshwright {

// What the processes of a run say to the one that watches them, and it to them: JSON objects with a
// "kind".
//   from a process: join {host, process}; give {group, text}; alive {at}; step {step, record};
//                   failed {code, message}; numbers {message, step}; done
//   to a process:   given {texts}; alive; explain {step}; failed {message}; end
// A process tells that it is alive every second, and so does the hub.

struct HubOptions {
  Seconds lost_after{15.0};  // without a sign of life
  // How a process ended whose connection is closed, in words after its name.
  std::function<std::string(std::size_t process)> how_ended;
};

// Watches the processes of a run, hands texts round among them and puts their steps together.
class Hub {
 public:
  Hub(std::vector<DeviceId> devices, HubOptions options, const StepProgress& progress);

  // A process, with the device of its number.
  void add(std::size_t process, FrameSocket socket);
  // Until all are done. Throws RunFailure when one is lost or fails, after the others were told.
  RunResult run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Process {
    std::optional<FrameSocket> socket;
    Clock::time_point heard;
    std::string name;           // "device 2 (process 17 on host a)"
    std::string at;             // what it did when it was last heard of
    std::int64_t finished = 0;  // steps
    bool done = false;
  };

  void wait() const;
  void read(std::size_t process);
  void take(std::size_t process, const std::string& text);
  void take_given(std::size_t process, const std::vector<std::size_t>& group, std::string text);
  void have_explained(std::int64_t step, const std::string& message);
  void check_silence(std::size_t process);
  [[noreturn]] void end_with(const RunFailure& failure);
  void send_all(const std::string& text);
  std::string last_words(const Process& process) const;

  std::vector<DeviceId> devices_;
  HubOptions options_;
  StepResults results_;
  std::vector<Process> processes_;
  std::map<std::vector<std::size_t>, std::map<std::size_t, std::string>> given_;  // by device
  std::optional<RunFailure> first_;  // that a step is run again to explain
};

}  // namespace meshwright
