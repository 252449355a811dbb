#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

struct PythonToken {
  enum class Kind { Name, Number, Text, Sign };
  Kind kind = Kind::Sign;
  std::string text;  // of a Text what is between the quotes
  std::int64_t line = 1;
  bool formatted = false;  // an f"..." has values in it
};

// A line as Python counts it: brackets, backslashes and long texts go on over line ends.
struct PythonLine {
  std::int64_t indent = 0;
  std::vector<PythonToken> tokens;
};

inline constexpr int kDeepestPython = 64;
inline constexpr std::size_t kLongestPythonName = 256;
inline constexpr std::size_t kMostPythonTokens = 200'000;

// Throws InputError with `source` and the line for brackets and quotes that are not closed, and
// brackets that nest too deep.
std::vector<PythonLine> python_lines(std::string_view text, const std::string& source);

}  // namespace meshwright
