#pragma once

#include <string>
#include <vector>

namespace meshwright {

// Rows of text in aligned columns, two blanks apart, each line indented by `indent` and ended by a
// line feed. Rows may have different lengths.
std::string table_text(const std::vector<std::vector<std::string>>& rows, std::size_t indent);

// `text` broken between words into lines of at most `width` columns; lines after the first are
// indented by `indent`.
std::string wrapped_text(const std::string& text, std::size_t width, std::size_t indent);

}  // namespace meshwright
