#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/profile/profile_rows.h"

namespace SQLite {
class Database;
}

namespace meshwright {

// "mesh" in ASCII: the application id that marks a file as ours.
inline constexpr std::int64_t kProfileApplication = 0x6d657368;

// The statements that make an empty profile of version ProfileDb::kVersion.
std::vector<std::string> schema_statements();

// Whether the tables are exactly those of the schema, without views, triggers or changed columns.
bool has_schema(SQLite::Database& database);

// A row's insertion that replaces one of no later date: parameters are the table's columns and the
// checksum.
std::string insert_statement(const TableDescription& table);
std::string select_statement(const TableDescription& table);

}  // namespace meshwright
