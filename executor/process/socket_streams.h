#pragma once

#include <map>
#include <memory>
#include <string>

#include "costmodel/base/write_file.h"
#include "executor/process/streams.h"

namespace meshwright {

// A connection to a process on another machine, and what to call it when it is lost.
struct PeerConnection {
  FileDescriptor socket;
  std::string name;
};

// By the number that the run has for a process.
std::unique_ptr<Streams> socket_streams(std::map<std::size_t, PeerConnection> peers);

}  // namespace meshwright
