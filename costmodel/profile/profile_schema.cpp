#include "costmodel/profile/profile_schema.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "costmodel/profile/profile_db.h"

namespace meshwright {
namespace {

std::string create_statement(const TableDescription& table) {
  std::string columns;
  std::vector<std::string_view> keys;
  for (const Column& column : table.columns) {
    columns += fmt::format("{} {}{}{}, ", column.name, to_text(column.type),
                           column.optional ? "" : " NOT NULL",
                           column.name == "provenance" ? " REFERENCES provenances(id)" : "");
    if (column.key) keys.push_back(column.name);
  }
  return fmt::format(
      "CREATE TABLE {} ({}checksum INTEGER NOT NULL, PRIMARY KEY ({})) STRICT, WITHOUT ROWID",
      table.name, columns, fmt::join(keys, ", "));
}

std::vector<std::string> column_names(const TableDescription& table, bool only_values = false) {
  std::vector<std::string> names;
  for (const Column& column : table.columns) {
    if (!only_values || !column.key) names.emplace_back(column.name);
  }
  names.emplace_back("checksum");
  return names;
}

std::vector<std::string> objects_of(SQLite::Database& database) {
  SQLite::Statement query(database,
                          "SELECT type || ' ' || name || ' ' || tbl_name || ' ' || "
                          "coalesce(sql, '') FROM sqlite_schema ORDER BY 1");
  std::vector<std::string> objects;
  while (query.executeStep()) objects.push_back(query.getColumn(0).getString());
  return objects;
}

}  // namespace

std::vector<std::string> schema_statements() {
  std::vector<std::string> statements = {
      "CREATE TABLE provenances (id INTEGER PRIMARY KEY, machine TEXT NOT NULL, software TEXT NOT "
      "NULL, source TEXT NOT NULL, checksum INTEGER NOT NULL, UNIQUE (machine, software, source)) "
      "STRICT"};
  const Profile profile;
  for_each_table(profile, [&](const auto& rows) {
    using Row = typename std::decay_t<decltype(rows)>::value_type;
    statements.push_back(create_statement(description_of<Row>()));
  });
  statements.push_back(fmt::format("PRAGMA application_id = {}", kProfileApplication));
  statements.push_back(fmt::format("PRAGMA user_version = {}", ProfileDb::kVersion));
  return statements;
}

bool has_schema(SQLite::Database& database) {
  SQLite::Database expected(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  for (const std::string& statement : schema_statements()) expected.exec(statement);
  return objects_of(database) == objects_of(expected);
}

std::string insert_statement(const TableDescription& table) {
  const auto names = column_names(table);
  const std::vector<std::string> places(names.size(), "?");
  std::vector<std::string> changes;
  for (const std::string& name : column_names(table, true)) {
    changes.push_back(fmt::format("{0} = excluded.{0}", name));
  }
  std::vector<std::string_view> keys;
  for (const Column& column : table.columns) {
    if (column.key) keys.push_back(column.name);
  }
  return fmt::format(
      "INSERT INTO {0} ({1}) VALUES ({2}) ON CONFLICT ({3}) DO UPDATE SET {4} WHERE "
      "excluded.date >= {0}.date",
      table.name, fmt::join(names, ", "), fmt::join(places, ", "), fmt::join(keys, ", "),
      fmt::join(changes, ", "));
}

std::string select_statement(const TableDescription& table) {
  return fmt::format("SELECT {} FROM {}", fmt::join(column_names(table), ", "), table.name);
}

}  // namespace meshwright
