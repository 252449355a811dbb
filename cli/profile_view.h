#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "costmodel/profile/profile.h"

namespace meshwright {

// What a profile has: who measured, and for each device and kind how many rows over which sizes.
std::string profile_view_text(const Profile& profile);
nlohmann::ordered_json profile_view_json(const Profile& profile);

}  // namespace meshwright
