#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "costmodel/profile/profile.h"

// Rows of a profile as a database and a file have them: one list of fields per kind of row, from
// which tables, files and checksums are made.
namespace meshwright {

using Cell = std::variant<std::monostate, std::int64_t, double, std::string>;

enum class CellType { Integer, Real, Text };

struct Column {
  std::string_view name;
  CellType type = CellType::Text;
  bool optional = false;
  bool key = false;  // of what identifies the thing that was measured
  friend bool operator==(const Column&, const Column&) = default;
};

// One kind of row: its table's name and its columns. The first column is always `provenance`.
struct TableDescription {
  std::string_view name;
  std::vector<Column> columns;
};

// Calls use(table, rows) for every table of a profile, with the vector of its rows.
template <class ProfileRef, class Use>
void for_each_table(ProfileRef& profile, Use use);

template <class Row>
const TableDescription& description_of();

template <class Row>
std::vector<Cell> cells_of(const Row& row);

// Throws InputError that names the column. The provenance is not checked.
template <class Row>
Row row_of(const std::vector<Cell>& cells);

// The cells that identify what was measured, and by whom.
template <class Row>
std::vector<Cell> key_of(const Row& row);

// Of the cells in their order; the same on every machine.
std::uint64_t checksum_of(const std::vector<Cell>& cells);

std::string_view to_text(CellType type);
// Says what a cell holds, for messages.
std::string text_of(const Cell& cell);

std::optional<KernelKind> parse_kernel_kind(std::string_view text);
std::optional<Phase> parse_phase(std::string_view text);
std::optional<TransferKind> parse_transfer_kind(std::string_view text);

template <class ProfileRef, class Use>
void for_each_table(ProfileRef& profile, Use use) {
  use(profile.devices);
  use(profile.kernels);
  use(profile.transfers);
  use(profile.links);
  use(profile.fits);
  use(profile.residuals);
}

}  // namespace meshwright
