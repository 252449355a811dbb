#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/base/write_file.h"
#include "executor/process/sha256.h"

namespace meshwright {

// What processes must know to join a run; drawn for each run from the system's random numbers.
using RunToken = Digest;
RunToken random_token();

// Where a process can be reached. As text, for those that are to reach it: of the run's own
// processes, since whoever has it may join.
struct MeetingPoint {
  std::vector<std::string> addresses;  // of IPv4
  std::uint16_t port = 0;
  RunToken token{};
};
std::string to_text(const MeetingPoint& point);
// None: it is no such text.
std::optional<MeetingPoint> meeting_point_from(const std::string& text);

// Takes connections of those that know the token and shows them that it knows it too. Others get
// no more than a random number, five seconds and a few hundred bytes.
class Listener {
 public:
  // `loopback`: only from this machine. Throws std::system_error.
  Listener(bool loopback, const RunToken& token);

  const MeetingPoint& point() const { return point_; }

  struct Joined {
    std::uint32_t process = 0;
    FileDescriptor connection;
  };
  // The next one; none when there is none by then.
  std::optional<Joined> accept(std::chrono::steady_clock::time_point until);

 private:
  struct Pending {
    FileDescriptor connection;
    Digest challenge;
    std::string received;
    std::chrono::steady_clock::time_point until;
    std::uint32_t process = 0;
    bool proven = false, refused = false;
  };
  void take_new();
  void read(Pending& pending) const;

  FileDescriptor socket_;
  MeetingPoint point_;
  std::list<Pending> pending_;
};

// A connection to whoever listens there, as process `process`. None: there is nobody who knows the
// token.
std::optional<FileDescriptor> join(const MeetingPoint& point, std::uint32_t process);

}  // namespace meshwright
