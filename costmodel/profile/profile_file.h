#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "costmodel/profile/profile.h"

namespace meshwright {

// A profile as JSON; the format is described in data/README.md. Sorted and with the shortest digits
// that give the same numbers back, so equal profiles are equal files.
std::string profile_text(const Profile& profile);
// Throws InputError with file and field. `source` stands for the file name in messages.
Profile parse_profile(std::string_view text, std::string source);

// Either form: a database or JSON. The result is sorted.
Profile read_profile(const std::filesystem::path& file);

// Puts all rows into a database, or into a JSON file if its name ends in .json.
void add_to_profile(const std::filesystem::path& file, const Profile& rows);

}  // namespace meshwright
