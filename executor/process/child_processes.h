#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/base/units.h"
#include "executor/process/frame_socket.h"

namespace meshwright {

// What a process that was started by ChildProcesses finds: which one it is, and its end of a
// connection to the one that started it.
struct ChildPlace {
  std::size_t process = 0, count = 0;
  int connection = 0;
};
// From the environment. None: nobody started this process so. Throws std::runtime_error for one
// that cannot be.
std::optional<ChildPlace> child_place();

// This program started again with the same words, several times. The processes end with the one
// that started them, whatever ends it; none is left when this goes away.
class ChildProcesses {
 public:
  // Throws std::system_error. From the main thread: the system ends them with the thread that
  // started them.
  explicit ChildProcesses(std::size_t count);
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  // The connection to one of them, once.
  FrameSocket take_connection(std::size_t process);
  // Of one that is about to end: "was killed by signal 9 (Killed)", "ended with code 1".
  std::string how_ended(std::size_t process);
  // Waits until all have ended; those that take longer are killed.
  void wait_for_all(Seconds limit);

 private:
  struct Child {
    pid_t id = 0;
    std::optional<FileDescriptor> connection;
    std::optional<int> status;  // of one that has ended
  };
  void start(std::size_t process, std::size_t count, const std::vector<std::string>& words);
  bool has_ended(Child& child);
  bool have_all_ended();
  void kill_rest();

  std::vector<Child> children_;
};

}  // namespace meshwright
