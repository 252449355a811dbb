#pragma once

#include <QObject>
#include <atomic>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "cli/ending.h"

namespace meshwright {

// Work of one kind that goes on beside the window, of which only the newest counts: starting
// another stops the one before, and what that still brings is dropped. What comes back is given to
// the window's thread. Everything is asked to stop and waited for at the end.
class Job {
 public:
  using Piece = std::function<void()>;
  using Deliver = std::function<void(Piece)>;
  // Runs in a thread of its own, may deliver pieces on the way, and returns the last.
  using Work = std::function<Piece(const std::stop_token&, const Deliver&)>;
  using Failed = std::function<void(const Ending&)>;

  // Pieces run where `home` lives, which must outlive this. `settled` is called after the last.
  Job(QObject& home, Piece settled) : home_(home), settled_(std::move(settled)) {}
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // `failed` gets what the command line says of what the work threw, in the window's thread.
  void start(Work work, Failed failed);
  // Asks to stop: what it has so far still comes.
  void stop();
  // Stops, and drops what still comes.
  void cancel();
  bool busy() const { return running_ != nullptr; }

 private:
  struct Thread {
    std::atomic<bool> done = false;
    std::jthread thread;
  };
  void deliver(std::uint64_t number, Piece piece, bool last);

  QObject& home_;
  Piece settled_;
  std::uint64_t newest_ = 0;
  std::list<std::shared_ptr<Thread>> threads_;  // stopped ones may still be at work
  std::shared_ptr<Thread> running_;
};

}  // namespace meshwright
