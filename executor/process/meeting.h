#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "executor/process/launched_place.h"
#include "executor/process/rendezvous.h"

namespace meshwright {

// The text of process 0, for all processes of an MPI job: theirs in, its out.
using Broadcast = std::function<std::string(const std::string& text)>;

// How the others of a run hear where process 0 listens: by MPI's own connections where a
// broadcast is given, else by a file that only its user can read.
class MeetingNotice {
 public:
  MeetingNotice(LaunchedPlace place, std::optional<Broadcast> broadcast);

  // By process 0. Throws std::system_error.
  void publish(const MeetingPoint& point) const;
  // When all have joined, or nobody can any more.
  void withdraw() const;
  // By another: a connection to process 0, and the run's token. Throws RunFailure when there is
  // none by then.
  FileDescriptor join_first(std::chrono::steady_clock::time_point until, RunToken& token) const;

 private:
  LaunchedPlace place_;
  std::optional<Broadcast> broadcast_;
};

}  // namespace meshwright
