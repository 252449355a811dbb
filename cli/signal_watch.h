#pragma once

#include <signal.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <stop_token>
#include <thread>

#include "costmodel/base/units.h"

namespace meshwright {

// Asks to stop when a person or a job system wants it (SIGINT, SIGTERM), or after `limit`. Signals
// must be blocked in every thread, so this stands before any is started.
class SignalWatch {
 public:
  explicit SignalWatch(std::optional<Seconds> limit = {});
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  std::stop_token token() const { return stop_.get_token(); }
  std::optional<int> signal() const;  // that came

 private:
  void watch(const std::stop_token& done);

  std::optional<std::chrono::steady_clock::time_point> end_;
  sigset_t signals_{}, before_{};
  std::atomic<int> caught_ = 0;
  std::stop_source stop_;
  std::jthread watcher_;
};

}  // namespace meshwright
