#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/write_file.h"

namespace meshwright {

// Texts over a stream of the system, each whole, without waiting. For one thread at a time.
class FrameSocket {
 public:
  explicit FrameSocket(FileDescriptor socket);

  int number() const { return socket_.number(); }
  // Sends what goes at once and keeps the rest for `flush`.
  void send(std::string_view text);
  void flush();
  bool has_more_to_send() const { return !out_.empty(); }
  // Those that have come whole by now.
  std::vector<std::string> read();
  // The other end is gone; what it had sent has been read.
  bool is_closed() const { return closed_; }
  // What was sent does not arrive: the machine at the other end cannot be reached. A process that
  // only hangs has a machine that says that it got it.
  bool is_cut() const;

 private:
  bool take_frame(std::vector<std::string>& frames);

  FileDescriptor socket_;
  std::string in_, out_;
  bool closed_ = false;
};

}  // namespace meshwright
