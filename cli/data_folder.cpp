#include "cli/data_folder.h"

#include <system_error>

namespace meshwright {

std::filesystem::path find_data_folder() {
  std::error_code unreadable;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  const auto installed = program.parent_path() / MESHWRIGHT_DATA_FROM_BIN;
  if (!unreadable && std::filesystem::is_directory(installed)) {
    return installed.lexically_normal();
  }
  return MESHWRIGHT_SOURCE_DATA;
}

}  // namespace meshwright
