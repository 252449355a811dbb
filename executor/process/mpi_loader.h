#pragma once

#include <filesystem>
#include <optional>
#include <span>

#include "executor/process/meeting.h"

namespace meshwright {

inline constexpr auto kMpiLibraryFile = "libmeshwright_mpi.so";
inline constexpr auto kMpiBroadcastFunction = "meshwright_mpi_broadcast";
inline constexpr int kMpiTextBytes = 8192;
// Puts the text of process 0 into that of all, which are so many. What went wrong, or null.
using MpiBroadcastFunction = const char* (*)(int processes, char* text, int bytes);

// Among so many processes, from the library in one of these folders, which stays loaded. None:
// there is none, or no MPI.
std::optional<Broadcast> load_mpi_broadcast(std::span<const std::filesystem::path> folders,
                                            std::size_t processes);

}  // namespace meshwright
