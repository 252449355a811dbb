#include "cli/library_folders.h"

namespace meshwright {

std::vector<std::filesystem::path> library_folders() {
  std::error_code unreadable;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unreadable).parent_path();
  return {program, (program / MESHWRIGHT_LIBRARIES_FROM_BIN).lexically_normal()};
}

}  // namespace meshwright
