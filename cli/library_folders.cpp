#include "cli/library_folders.h"

#include <cstdlib>

namespace meshwright {

std::vector<std::filesystem::path> library_folders() {
  std::error_code unreadable;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unreadable).parent_path();
  return {program, (program / MESHWRIGHT_LIBRARIES_FROM_BIN).lexically_normal()};
}

std::vector<std::filesystem::path> solver_folders() {
  std::vector<std::filesystem::path> folders = library_folders();
  folders.emplace_back(MESHWRIGHT_SOURCE_ORTOOLS);
  if (const char* const given = std::getenv("MESHWRIGHT_ORTOOLS")) {
    folders.emplace(folders.begin(), given);
  }
  return folders;
}

}  // namespace meshwright
