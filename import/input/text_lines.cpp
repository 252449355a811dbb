#include "import/input/text_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

constexpr std::string_view kTextBlanks = " \t\r\n";

}  // namespace

void fail_line(const std::string& source, std::int64_t line, std::string_view problem) {
  throw InputError(fmt::format("{}: line {}: {}", printable(source), line, problem));
}

void require_text(std::string_view text, const std::string& source) {
  if (const auto nul = text.find('\0'); nul != text.npos) {
    fail_line(source, line_of(text, nul), "has a NUL byte, expected text");
  }
  // What graphs and archives start with. Terminals' colours may stand in logs.
  const auto is_binary = [](char c) { return c > 0 && c < '\t'; };
  if (const auto byte = std::ranges::find_if(text, is_binary); byte != text.end()) {
    fail_line(source, line_of(text, static_cast<std::size_t>(byte - text.begin())),
              fmt::format("has the byte {:#04x}, expected text", *byte));
  }
  if (trimmed(text).empty()) throw InputError(fmt::format("{}: is empty", printable(source)));
}

std::int64_t line_of(std::string_view text, std::size_t offset) {
  return 1 + std::ranges::count(text.substr(0, offset), '\n');
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string> words_in(std::string_view line) {
  std::vector<std::string> words;
  for (;;) {
    const auto first = line.find_first_not_of(kTextBlanks);
    if (first == line.npos) return words;
    const auto end = std::min(line.find_first_of(kTextBlanks, first), line.size());
    words.emplace_back(line.substr(first, end - first));
    line.remove_prefix(end);
  }
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kTextBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kTextBlanks) - first + 1);
}

std::optional<std::int64_t> whole_number_in(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::optional<double> number_in_text(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

}  // namespace meshwright
