#include "executor/process/mpi_loader.h"

#include <dlfcn.h>

#include <vector>

#include "executor/environment_error.h"

namespace meshwright {

std::optional<Broadcast> load_mpi_broadcast(std::span<const std::filesystem::path> folders,
                                            std::size_t processes) {
  for (const auto& folder : folders) {
    // Open MPI looks for its own parts among all symbols that are there.
    void* const library = ::dlopen((folder / kMpiLibraryFile).c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) continue;
    const auto broadcast =
        reinterpret_cast<MpiBroadcastFunction>(::dlsym(library, kMpiBroadcastFunction));
    if (broadcast == nullptr) continue;
    return [broadcast, processes = static_cast<int>(processes)](const std::string& given) {
      std::vector<char> text(kMpiTextBytes);
      given.copy(text.data(), text.size() - 1);
      if (const char* const problem = broadcast(processes, text.data(), kMpiTextBytes)) {
        throw EnvironmentError(std::string("MPI: ") + problem);
      }
      return std::string(text.data());
    };
  }
  return std::nullopt;
}

}  // namespace meshwright
