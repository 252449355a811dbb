#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/input_error.h"

namespace meshwright {

// What a person typed names nothing, as opposed to a file whose contents are wrong.
class NameError : public InputError {
 public:
  using InputError::InputError;
};

// Names of the .json files of a folder, sorted, without the ending.
std::vector<std::string> preset_names(const std::filesystem::path& folder);

// " Did you mean gpt2?" for the known name that is a slip of the finger away; empty: none is.
std::string hint_for(std::string_view typed, const std::vector<std::string>& known);

// The file a person means: a preset of the folder, or a path (anything with a slash, that ends in
// .json, or that exists). Throws NameError for anything else; `what` is what was asked for.
std::filesystem::path find_file(std::string_view typed, const std::filesystem::path& folder,
                                std::string_view what);

}  // namespace meshwright
