#pragma once

#include <filesystem>
#include <span>

#include "costmodel/base/units.h"
#include "simulator/program/program.h"

namespace meshwright {

// Of the machine.
Bytes total_memory();

// The most that processes can still get: the less of what the system says is available and what
// their control group has left. `root`: where /proc and /sys are found.
Bytes available_memory(const std::filesystem::path& root = "/");

// What devices that are threads of this process need together, on device and host.
Bytes memory_needed(std::span<const Program> programs);

// Throws MemoryError, which says both, if more is needed than is available.
void check_memory(Bytes needed, Bytes available);
// Throws MemoryError where the limit of this process (ulimit -v) leaves too few addresses for
// devices that are its threads.
void check_addresses(std::span<const Program> programs);

}  // namespace meshwright
