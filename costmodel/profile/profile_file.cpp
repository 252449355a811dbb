#include "costmodel/profile/profile_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "costmodel/base/input_error.h"
#include "costmodel/base/json_input.h"
#include "costmodel/base/write_file.h"
#include "costmodel/profile/profile_db.h"
#include "costmodel/profile/profile_rows.h"

namespace meshwright {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr int kProfileVersion = 1;
constexpr Bytes kLargest = 256_MiB;

// Texts come from programs and files and need not be UTF-8.
std::string dumped(const ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The library's own digits of a number are not always the fewest.
std::string cell_text(const Cell& cell) {
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *whole);
  if (const auto* number = std::get_if<double>(&cell)) return fmt::format("{}", *number);
  if (const auto* text = std::get_if<std::string>(&cell)) return dumped(*text);
  return "null";
}

// One row a line, so that a change of one row is a change of one line.
template <class Row>
std::string table_text(const std::vector<Row>& rows) {
  const TableDescription& table = description_of<Row>();
  ordered_json names = ordered_json::array();
  for (const Column& column : table.columns) names.push_back(column.name);
  std::string text = fmt::format(",\n  \"{}\": {{\n    \"columns\": {},\n    \"rows\": [",
                                 table.name, dumped(names));
  bool first = true;
  for (const Row& row : rows) {
    std::vector<std::string> cells;
    for (const Cell& cell : cells_of(row)) cells.push_back(cell_text(cell));
    text += fmt::format("{}\n      [{}]", first ? "" : ",", fmt::join(cells, ","));
    first = false;
  }
  return text + "\n    ]\n  }";
}

Cell read_cell(const JsonInput& value, const Column& column) {
  if (value.is_null()) return {};
  switch (column.type) {
    case CellType::Integer:
      return value.as<std::int64_t>();
    case CellType::Real:
      return value.as<double>();
    case CellType::Text:
      return value.as<std::string>();
  }
  return {};
}

template <class Row>
void read_table(const JsonInput& document, std::size_t provenances, std::vector<Row>& rows) {
  const TableDescription& table = description_of<Row>();
  const auto found = document.find(table.name);
  if (!found) return;
  std::vector<std::string> names;
  for (const Column& column : table.columns) names.emplace_back(column.name);
  if (found->at("columns").list<std::string>() != names) {
    found->at("columns").fail_expected(dumped(names));
  }
  for (const JsonInput& row : found->at("rows").elements()) {
    const auto values = row.elements();
    if (values.size() != names.size()) {
      row.fail_expected(fmt::format("{} values, one for each column", names.size()));
    }
    std::vector<Cell> cells;
    for (std::size_t i = 0; i < values.size(); ++i) {
      cells.push_back(read_cell(values[i], table.columns[i]));
    }
    try {
      rows.push_back(row_of<Row>(cells));
    } catch (const InputError& error) {
      row.fail(error.what());
    }
    if (!is_date(rows.back().evidence.date)) {
      values[1].fail_expected("a date such as 2026-02-03, 2026-02 or 2026");
    }
    if constexpr (std::is_same_v<Row, TransferTime>) {
      if (!is_place(rows.back().place))
        row.fail("expected two devices or more, as many on each node");
    }
    if (rows.back().evidence.provenance >= provenances) {
      values[0].fail_expected(fmt::format("a number below {}", provenances));
    }
  }
  found->reject_unknown_fields();
}

Profile profile_of(const JsonInput& document) {
  if (document.required<std::string>("format") != "meshwright-profile") {
    document.at("format").fail_expected("\"meshwright-profile\"");
  }
  if (document.required<std::int64_t>("version") != kProfileVersion) {
    document.at("version").fail_expected(fmt::format("{}", kProfileVersion));
  }
  Profile profile;
  for (const JsonInput& entry : document.at("provenances").elements()) {
    profile.provenances.push_back({entry.required<std::string>("machine"),
                                   entry.required<std::string>("software"),
                                   entry.required<std::string>("source")});
    entry.reject_unknown_fields();
  }
  for_each_table(profile,
                 [&](auto& rows) { read_table(document, profile.provenances.size(), rows); });
  document.reject_unknown_fields();
  return sorted(profile);
}

}  // namespace

std::string profile_text(const Profile& profile) {
  const Profile ordered = sorted(profile);
  std::string text = fmt::format(
      "{{\n  \"format\": \"meshwright-profile\",\n  \"version\": {},\n  \"provenances\": [",
      kProfileVersion);
  bool first = true;
  for (const Provenance& one : ordered.provenances) {
    const ordered_json entry = {
        {"machine", one.machine}, {"software", one.software}, {"source", one.source}};
    text += fmt::format("{}\n    {}", first ? "" : ",", dumped(entry));
    first = false;
  }
  text += "\n  ]";
  for_each_table(ordered, [&](const auto& rows) {
    if (!rows.empty()) text += table_text(rows);
  });
  return text + "\n}\n";
}

Profile parse_profile(std::string_view text, std::string source) {
  return profile_of(JsonInput::parse(text, std::move(source)));
}

Profile read_profile(const fs::path& file) {
  if (file.extension() == ".json") return profile_of(JsonInput::read(file, kLargest));
  return ProfileDb::read(file);
}

void add_to_profile(const fs::path& file, const Profile& rows) {
  if (file.extension() != ".json") return ProfileDb(file).add(rows);
  std::error_code unknown;
  const bool there = fs::exists(file, unknown);
  write_text_file(file, profile_text(there ? merged(read_profile(file), rows) : rows));
}

}  // namespace meshwright
