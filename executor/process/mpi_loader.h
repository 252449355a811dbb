#pragma once

#include <filesystem>
#include <optional>
#include <span>

#include "executor/process/meeting.h"

namespace meshwright {

inline constexpr auto kMpiLibraryFile = "libmeshwright_mpi.so";
inline constexpr auto kMpiBroadcastFunction = "meshwright_mpi_broadcast";
inline constexpr int kMpiTextBytes = 8192;
// Puts the text of process 0 into that of all. What went wrong, or null.
using MpiBroadcastFunction = const char* (*)(char* text, int bytes);

// From the library in one of these folders, which stays loaded. None: there is none, or no MPI.
std::optional<Broadcast> load_mpi_broadcast(std::span<const std::filesystem::path> folders);

}  // namespace meshwright
