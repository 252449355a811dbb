#pragma once

#include <cstring>
#include <string>

#include "tests/standin/machine.h"

namespace meshwright::standin {

// A library's work in a stream that needs memory of its own for as long as it runs: two operations,
// between which others may run. If one of them uses the same memory, that is a fault.
inline void put_with_workspace(Machine& machine, Stream& stream, const std::string& name,
                               void* workspace, std::size_t bytes, std::function<void()> work) {
  if (bytes < sizeof(std::uint64_t)) {
    machine.put(stream, {.name = name, .start = std::move(work)});
    return;
  }
  const std::uint64_t mark = machine.draw();
  machine.put(stream, {.name = name, .start = [=] {
                         std::memset(workspace, 0xff, bytes);
                         std::memcpy(workspace, &mark, sizeof(mark));
                       }});
  machine.put(stream, {.name = name, .start = [=, &machine, run = std::move(work)] {
                         if (std::memcmp(workspace, &mark, sizeof(mark)) != 0) {
                           machine.add_fault(name + ": another stream wrote to its workspace");
                         }
                         run();
                       }});
}

}  // namespace meshwright::standin
