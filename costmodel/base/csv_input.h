#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/units.h"

namespace meshwright {

// A table of comma-separated values with a header (RFC 4180: fields may stand in quotation marks,
// "" inside them is one). It knows its file, so every reading failure is an InputError that names
// file, line and column.
class CsvInput {
 public:
  static CsvInput read(const std::filesystem::path& file, Bytes largest = 64_MiB);
  // `source` stands for the file name in messages.
  static CsvInput parse(std::string_view text, std::string source);

  std::size_t rows() const { return rows_.size(); }
  const std::vector<std::string>& columns() const { return columns_; }
  bool has_column(std::string_view column) const;
  // Bad: no such column.
  void require_columns(const std::vector<std::string_view>& columns) const;

  // An empty field is absent. The column must be there.
  std::optional<std::string> text(std::size_t row, std::string_view column) const;
  std::optional<double> number(std::size_t row, std::string_view column) const;
  // A whole number of at least `least`.
  std::optional<std::int64_t> integer(std::size_t row, std::string_view column,
                                      std::int64_t least = 0) const;

  // Throws `file: line 3, gpus: expected ..., found ...`.
  [[noreturn]] void fail_expected(std::size_t row, std::string_view column,
                                  std::string_view expected) const;

 private:
  struct Row {
    std::size_t line = 0;
    std::vector<std::string> fields;
  };
  std::size_t index_of(std::string_view column) const;

  std::string source_;
  std::vector<std::string> columns_;
  std::vector<Row> rows_;
};

// A field as it stands in a CSV file: in quotation marks where it needs them.
std::string csv_field(std::string_view text);

}  // namespace meshwright
