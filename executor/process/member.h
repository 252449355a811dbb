#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "costmodel/base/ids.h"
#include "executor/process/frame_socket.h"
#include "executor/process/run_failure.h"
#include "executor/worker.h"

namespace meshwright {

// Where a process is, for its signs of life.
struct Whereabouts {
  std::string text;        // "step 3, task 7 of 90 (...)"; empty: before the first step
  std::int64_t begun = 0;  // tasks since the start
  bool waits = false;      // the task takes as long as other processes do
  Seconds longest;         // that the task takes by itself on any machine
};

// The end of a run's process towards the hub (hub.h). A thread of its own keeps giving signs of
// life and hears what the hub says; when the run is over for others, it ends this process too, five
// seconds after it has asked to.
class Member {
 public:
  // `lost_after`: how long the hub may be silent; none: as long as it lives.
  explicit Member(FrameSocket socket, std::optional<Seconds> lost_after = {});
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // Where the process is; none: before its first step.
  void tell_place(std::function<Whereabouts()> place);
  // Called when the hub ends the run or wants a step explained: what waits for other processes is
  // to be given up for this reason. From another thread.
  void on_call_off(std::function<void(const std::string&)> call_off);

  // Which device it has, if not that of its own number.
  void tell_device(DeviceId device);
  // What each process gives, by process. Throws PeerFailure when the run was called off.
  std::vector<std::string> exchange(const std::string& given);
  void finish_step(std::int64_t step, const StepRecord& record, bool whole);
  // Why this process ends the run, and with which exit code. Returns when the hub has heard it.
  void report(int code, const std::string& message);
  // A step gave numbers that are not finite: all are to run it again to find out why.
  void ask_to_explain(const std::string& message, std::int64_t step);
  // After a transfer was given up for this reason: which step is to be run again. None: the run is
  // over. Waits until the hub has said that, which it is told if it does not know.
  std::optional<std::int64_t> step_to_explain(const std::string& reason);
  // Says that it is done and waits until all are.
  void finish();

  // Why the run was called off, and whether the hub said so.
  struct CallOff {
    RunFailure failure;
    bool told = false;
  };
  std::optional<CallOff> called_off();

 private:
  void listen(const std::stop_token& done);
  void wait_for_input();
  void take(const std::string& text);
  void call_off(const CallOff& why);
  void check_hub();
  [[noreturn]] void throw_given_up() const;
  void send(const std::string& text);

  FrameSocket socket_;
  FileDescriptor wake_;
  std::mutex mutex_;  // guards the socket and what follows
  std::condition_variable changed_;
  std::function<Whereabouts()> place_;
  std::function<void(const std::string&)> call_off_;
  std::vector<std::vector<std::string>> given_;  // at most one
  std::optional<std::int64_t> explain_;
  std::optional<CallOff> failure_;
  std::optional<Seconds> lost_after_;
  std::string hub_name_ = "the process that watches the run", hub_words_;
  std::chrono::steady_clock::time_point heard_;
  std::optional<std::chrono::steady_clock::time_point> end_at_;
  bool ended_ = false;
  std::jthread listener_;
};

}  // namespace meshwright
