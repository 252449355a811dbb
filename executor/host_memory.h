#pragma once

#include <filesystem>
#include <span>

#include "costmodel/base/units.h"
#include "simulator/program/program.h"

namespace meshwright {

// Of the machine.
Bytes total_memory();

// The most that this process can still get: the least of what the system says is available, what
// its control group has left, and what its own limit (ulimit -v) leaves. `root`: where /proc and
// /sys are found.
Bytes available_memory(const std::filesystem::path& root = "/");

// What devices that are threads of this process need together, on device and host.
Bytes memory_needed(std::span<const Program> programs);

// Throws MemoryError, which says both, if more is needed than is available.
void check_memory(Bytes needed, Bytes available);

}  // namespace meshwright
