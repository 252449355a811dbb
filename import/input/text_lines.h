#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

// Throws InputError "source: line N: problem".
[[noreturn]] void fail_line(const std::string& source, std::int64_t line, std::string_view problem);

// Throws InputError where a text has a NUL, which no text file has, or nothing but blanks.
void require_text(std::string_view text, const std::string& source);

// Of the character at an offset, from 1.
std::int64_t line_of(std::string_view text, std::size_t offset);

// Without line ends, also those of Windows.
std::vector<std::string> lines_of(std::string_view text);

std::vector<std::string> words_in(std::string_view line);
std::string_view trimmed(std::string_view text);

// The whole of the text as a number. None: it is no such number, or not finite.
std::optional<std::int64_t> whole_number_in(std::string_view text);
std::optional<double> number_in_text(std::string_view text);

}  // namespace meshwright
