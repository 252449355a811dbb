#pragma once

#include <string>

#include "cli/session.h"
#include "costmodel/profile/profile.h"

namespace meshwright {

// The profile an option names: a preset (data/profiles), a database or a JSON file. Throws
// UsageError for what names none.
Profile profile_from_option(const std::string& text, const Session& session);

}  // namespace meshwright
