#include "cli/profile_option.h"

#include <filesystem>

#include "costmodel/base/input_error.h"
#include "costmodel/base/presets.h"
#include "costmodel/profile/profile_file.h"

namespace meshwright {

Profile profile_from_option(const std::string& text, const Session& session) {
  // A database has no preset's ending but any name; a name without a file is looked up.
  std::error_code unknown;
  if (std::filesystem::exists(text, unknown) || text.find('/') != text.npos ||
      text.find('.') != text.npos) {
    return read_profile(text);
  }
  try {
    return read_profile(find_file(text, session.data / "profiles", "profile"));
  } catch (const NameError& error) {
    throw UsageError(error.what());
  }
}

}  // namespace meshwright
