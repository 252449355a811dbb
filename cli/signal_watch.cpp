#include "cli/signal_watch.h"

#include <unistd.h>

#include <algorithm>

namespace meshwright {

SignalWatch::SignalWatch(std::optional<Seconds> limit) {
  using Clock = std::chrono::steady_clock;
  if (limit) {
    // Beyond a century the clock's own count may end.
    const std::chrono::duration<double> wait(std::min(limit->value(), 3e9));
    end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
  }
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  watcher_ = std::jthread([this](const std::stop_token& done) { watch(done); });
}

SignalWatch::~SignalWatch() {
  watcher_.request_stop();
  watcher_.join();
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalWatch::signal() const {
  const int caught = caught_.load();
  return caught == 0 ? std::nullopt : std::optional(caught);
}

void SignalWatch::watch(const std::stop_token& done) {
  while (!done.stop_requested()) {
    if (end_ && std::chrono::steady_clock::now() >= *end_) stop_.request_stop();
    const struct timespec pause { 0, 50'000'000 };
    const int signal = ::sigtimedwait(&signals_, nullptr, &pause);
    if (signal <= 0) continue;
    // The second one ends the program at once.
    if (caught_.exchange(signal) != 0) ::_exit(128 + signal);
    stop_.request_stop();
  }
}

}  // namespace meshwright
