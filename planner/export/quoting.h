#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

// A text as one word of a shell, one literal of Python or TOML (a basic string), a YAML scalar in
// double quotes. Whatever bytes it has, it comes back as it was.
std::string shell_word(std::string_view text);
std::string shell_words(const std::vector<std::string>& words);
std::string quoted_text(std::string_view text);  // JSON, Python, TOML and YAML read it alike

// The shortest digits that read back as this number, with a point: YAML takes 1e-05 for a text.
std::string number_text(double number);
std::string python_text(bool value);
std::string lower_text(bool value);  // JSON, TOML, YAML

// An identifier of Python: other characters become '_'.
std::string identifier(std::string_view text);

}  // namespace meshwright
