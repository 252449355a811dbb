#include "costmodel/base/csv_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "costmodel/base/input_error.h"
#include "costmodel/base/json_input.h"

namespace meshwright {
namespace {

struct Line {
  std::size_t number = 0;
  std::vector<std::string> fields;
};

// Splits a text into records; line numbers count from 1.
class Records {
 public:
  Records(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  std::optional<Line> next() {
    while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) skip();
    if (at_ >= text_.size()) return std::nullopt;
    Line line{.number = line_};
    do {
      line.fields.push_back(field());
    } while (take(','));
    if (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '\r') {
      throw InputError(fmt::format("{}: line {}: expected a comma after a quoted field, found {}",
                                   source_, line_, text_[at_]));
    }
    return line;
  }

 private:
  void skip() {
    if (text_[at_] == '\n') ++line_;
    ++at_;
  }
  bool take(char wanted) {
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  std::string field() {
    if (take('"')) return quoted();
    const std::size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
    const std::string_view plain = text_.substr(at_, end - at_);
    at_ = end;
    return std::string(plain);
  }
  std::string quoted() {
    const std::size_t first_line = line_;
    std::string value;
    while (at_ < text_.size()) {
      if (take('"')) {
        if (!take('"')) return value;
        value += '"';
        continue;
      }
      value += text_[at_];
      skip();
    }
    throw InputError(
        fmt::format("{}: line {}: a quotation mark is never closed", source_, first_line));
  }

  std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
};

}  // namespace

CsvInput CsvInput::read(const std::filesystem::path& file, Bytes largest) {
  return parse(read_text_file(file, largest), file.string());
}

CsvInput CsvInput::parse(std::string_view text, std::string source) {
  CsvInput table;
  table.source_ = std::move(source);
  Records records(text, table.source_);
  auto header = records.next();
  if (!header)
    throw InputError(fmt::format("{}: expected a header line, found nothing", table.source_));
  table.columns_ = std::move(header->fields);
  while (auto line = records.next()) {
    if (line->fields.size() != table.columns_.size()) {
      throw InputError(fmt::format("{}: line {}: expected {} fields as in the header, found {}",
                                   table.source_, line->number, table.columns_.size(),
                                   line->fields.size()));
    }
    table.rows_.push_back({line->number, std::move(line->fields)});
  }
  return table;
}

bool CsvInput::has_column(std::string_view column) const {
  return std::ranges::find(columns_, column) != columns_.end();
}

std::size_t CsvInput::index_of(std::string_view column) const {
  const auto found = std::ranges::find(columns_, column);
  if (found == columns_.end()) {
    throw InputError(fmt::format("{}: the column {} is missing", source_, column));
  }
  return static_cast<std::size_t>(found - columns_.begin());
}

void CsvInput::require_columns(const std::vector<std::string_view>& columns) const {
  for (const std::string_view column : columns) index_of(column);
}

std::optional<std::string> CsvInput::text(std::size_t row, std::string_view column) const {
  const std::string& field = rows_[row].fields[index_of(column)];
  return field.empty() ? std::nullopt : std::optional(field);
}

std::optional<double> CsvInput::number(std::size_t row, std::string_view column) const {
  const auto field = text(row, column);
  if (!field) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(field->data(), field->data() + field->size(), value);
  if (error != std::errc() || end != field->data() + field->size()) {
    fail_expected(row, column, "a number");
  }
  return value;
}

std::optional<std::int64_t> CsvInput::integer(std::size_t row, std::string_view column,
                                              std::int64_t least) const {
  const auto field = text(row, column);
  if (!field) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(field->data(), field->data() + field->size(), value);
  if (error != std::errc() || end != field->data() + field->size() || value < least) {
    fail_expected(row, column, fmt::format("a whole number of at least {}", least));
  }
  return value;
}

void CsvInput::fail_expected(std::size_t row, std::string_view column,
                             std::string_view expected) const {
  throw InputError(fmt::format("{}: line {}, {}: expected {}, found {}", source_, rows_[row].line,
                               column, expected, printable(rows_[row].fields[index_of(column)])));
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  quoted += '"';
  return quoted;
}

}  // namespace meshwright
