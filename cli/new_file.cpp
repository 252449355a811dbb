#include "cli/new_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "cli/session.h"
#include "costmodel/base/input_error.h"

namespace meshwright {

void require_new_file(const std::string& option, const std::string& file, bool force) {
  std::error_code unreadable;
  if (force || !std::filesystem::is_regular_file(file, unreadable)) return;
  throw UsageError(fmt::format("{} {}: the file is there already; --force replaces it", option,
                               printable(file)));
}

}  // namespace meshwright
