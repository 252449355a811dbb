#include "costmodel/profile/profile_rows.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>

#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

constexpr bool kKey = true, kValue = false;

// One list of fields for each kind of row. `Row` may be const.
template <class Visit, class Row>
void visit_evidence(Visit& visit, Row& row) {
  visit("provenance", row.evidence.provenance, kKey);
  visit("date", row.evidence.date, kValue);
  visit("repetitions", row.evidence.repetitions, kValue);
  visit("spread", row.evidence.spread, kValue);
  visit("device", row.device, kKey);
}

template <class Visit, class Row>
void visit_fields(Visit& visit, Row& row) {
  visit_evidence(visit, row);
  using Plain = std::remove_const_t<Row>;
  if constexpr (std::is_same_v<Plain, DeviceRecord>) {
    visit("description", row.description, kValue);
    visit("devices", row.devices, kValue);
    visit("memory_bytes", row.memory, kValue);
  } else if constexpr (std::is_same_v<Plain, KernelTime>) {
    visit("kind", row.kernel.kind, kKey);
    visit("part", row.kernel.phase, kKey);
    visit("variant", row.kernel.variant, kKey);
    visit("precision", row.precision, kKey);
    visit("shape", row.shape, kKey);
    visit("time_s", row.time, kValue);
  } else if constexpr (std::is_same_v<Plain, TransferTime>) {
    visit("kind", row.kind, kKey);
    visit("devices", row.place.devices, kKey);
    visit("nodes", row.place.nodes, kKey);
    visit("bytes", row.bytes, kKey);
    visit("time_s", row.time, kValue);
  } else if constexpr (std::is_same_v<Plain, LinkTime>) {
    visit("a", row.a, kKey);
    visit("b", row.b, kKey);
    visit("latency_s", row.latency, kValue);
    visit("bytes_per_s", row.bandwidth, kValue);
  } else if constexpr (std::is_same_v<Plain, FitParameter>) {
    visit("fit", row.fit, kKey);
    visit("parameter", row.parameter, kKey);
    visit("value", row.value, kValue);
  } else {
    static_assert(std::is_same_v<Plain, Residual>);
    visit("run", row.run, kKey);
    visit("quantity", row.quantity, kKey);
    visit("measured", row.measured, kValue);
    visit("predicted", row.predicted, kValue);
  }
}

template <class Row>
constexpr std::string_view table_name() {
  if constexpr (std::is_same_v<Row, DeviceRecord>) return "devices";
  if constexpr (std::is_same_v<Row, KernelTime>) return "kernels";
  if constexpr (std::is_same_v<Row, TransferTime>) return "transfers";
  if constexpr (std::is_same_v<Row, LinkTime>) return "links";
  if constexpr (std::is_same_v<Row, FitParameter>) return "fits";
  if constexpr (std::is_same_v<Row, Residual>) return "residuals";
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += fmt::format("{}{}", text.empty() ? "" : "x", size);
  return text;
}

std::optional<std::vector<std::int64_t>> parse_shape(std::string_view text) {
  std::vector<std::int64_t> shape;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::int64_t size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 1 || *at == '+') return std::nullopt;
    shape.push_back(size);
    if (next == end) return shape;
    if (*next != 'x') return std::nullopt;
    at = next + 1;
  }
}

Cell to_cell(std::size_t value) { return static_cast<std::int64_t>(value); }
Cell to_cell(std::int64_t value) { return value; }
Cell to_cell(double value) { return value; }
Cell to_cell(const std::string& value) { return value; }
Cell to_cell(Bytes value) { return value.value(); }
Cell to_cell(Seconds value) { return value.value(); }
Cell to_cell(BytesPerSecond value) { return value.value(); }
Cell to_cell(KernelKind value) { return std::string(to_text(value)); }
Cell to_cell(Phase value) { return std::string(to_text(value)); }
Cell to_cell(TransferKind value) { return std::string(to_text(value)); }
Cell to_cell(Precision value) { return std::string(to_text(value)); }
Cell to_cell(const std::vector<std::int64_t>& value) { return shape_text(value); }
template <class T>
Cell to_cell(const std::optional<T>& value) {
  return value ? to_cell(*value) : Cell();
}

// What a column expects, and whether a cell is that. Reading fills the value.
struct RowReader {
  const std::vector<Cell>& cells;
  std::size_t next = 0;

  template <class T>
  void operator()(std::string_view name, T& value, bool) {
    const Cell& cell = cells[next++];
    if (const auto problem = read(cell, value)) {
      throw InputError(fmt::format("{}: expected {}, found {}", name, *problem, text_of(cell)));
    }
  }

  // What was expected instead; nothing: it was read.
  using Problem = std::optional<std::string_view>;
  static Problem read(const Cell& cell, std::int64_t& value) {
    const auto* number = std::get_if<std::int64_t>(&cell);
    if (!number || *number < 0) return "a whole number from 0 on";
    value = *number;
    return {};
  }
  static Problem read(const Cell& cell, std::size_t& value) {
    std::int64_t number = 0;
    const Problem problem = read(cell, number);
    value = static_cast<std::size_t>(number);
    return problem;
  }
  static Problem read(const Cell& cell, double& value) {
    if (const auto* whole = std::get_if<std::int64_t>(&cell)) {
      value = static_cast<double>(*whole);
      return {};
    }
    const auto* number = std::get_if<double>(&cell);
    if (!number || !std::isfinite(*number)) return "a finite number";
    value = *number;
    return {};
  }
  static Problem read(const Cell& cell, std::string& value) {
    const auto* text = std::get_if<std::string>(&cell);
    if (!text) return "a text";
    value = *text;
    return {};
  }
  static Problem read(const Cell& cell, Bytes& value) {
    std::int64_t number = 0;
    if (read(cell, number) || number == 0) return "a whole number from 1 on";
    value = Bytes(number);
    return {};
  }
  template <class Tag>
  static Problem read(const Cell& cell, Quantity<Tag, double>& value) {
    double number = 0;
    if (read(cell, number) || number <= 0) return "a number above 0";
    value = Quantity<Tag, double>(number);
    return {};
  }
  static Problem read(const Cell& cell, std::vector<std::int64_t>& value) {
    const auto* text = std::get_if<std::string>(&cell);
    const auto shape = text ? parse_shape(*text) : std::nullopt;
    if (!shape) return "sizes such as 1024x4096";
    value = *shape;
    return {};
  }
  template <class Enum>
  static Problem read_name(const Cell& cell, std::optional<Enum> (*parse)(std::string_view),
                           std::string_view expected, Enum& value) {
    const auto* text = std::get_if<std::string>(&cell);
    const auto parsed = text ? parse(*text) : std::nullopt;
    if (!parsed) return expected;
    value = *parsed;
    return {};
  }
  static Problem read(const Cell& cell, KernelKind& value) {
    return read_name(cell, parse_kernel_kind, "a kind of kernel such as matmul", value);
  }
  static Problem read(const Cell& cell, Phase& value) {
    return read_name(cell, parse_phase, "a phase such as forward", value);
  }
  static Problem read(const Cell& cell, TransferKind& value) {
    return read_name(cell, parse_transfer_kind, "a kind of transfer such as all_reduce", value);
  }
  static Problem read(const Cell& cell, Precision& value) {
    return read_name(cell, parse_precision, "a precision such as bf16", value);
  }
  template <class T>
  static Problem read(const Cell& cell, std::optional<T>& value) {
    if (std::holds_alternative<std::monostate>(cell)) return {};
    T inner{};
    const Problem problem = read(cell, inner);
    value = inner;
    return problem;
  }
};

template <class T>
constexpr bool kIsOptional = false;
template <class T>
constexpr bool kIsOptional<std::optional<T>> = true;

struct ColumnLister {
  std::vector<Column> columns;
  template <class T>
  void operator()(std::string_view name, const T& value, bool key) {
    columns.push_back({name, type_of(value), kIsOptional<T>, key});
  }

 private:
  template <class T>
  static CellType type_of(const T&) {
    if constexpr (kIsOptional<T>) {
      return type_of(typename T::value_type{});
    } else {
      const Cell cell = to_cell(T{});
      return cell.index() == 1 ? CellType::Integer
                               : (cell.index() == 2 ? CellType::Real : CellType::Text);
    }
  }
};

struct CellLister {
  std::vector<Cell> all, keys;
  template <class T>
  void operator()(std::string_view, const T& value, bool key) {
    all.push_back(to_cell(value));
    if (key) keys.push_back(all.back());
  }
};

template <class Enum>
std::optional<Enum> parse_enum(std::string_view text, int count) {
  for (int i = 0; i < count; ++i) {
    if (to_text(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

template <class Row>
const TableDescription& description_of() {
  static const TableDescription description = [] {
    ColumnLister lister;
    const Row row{};
    visit_fields(lister, row);
    return TableDescription{table_name<Row>(), std::move(lister.columns)};
  }();
  return description;
}

template <class Row>
std::vector<Cell> cells_of(const Row& row) {
  CellLister lister;
  visit_fields(lister, row);
  return std::move(lister.all);
}

template <class Row>
std::vector<Cell> key_of(const Row& row) {
  CellLister lister;
  visit_fields(lister, row);
  return std::move(lister.keys);
}

template <class Row>
Row row_of(const std::vector<Cell>& cells) {
  const std::size_t expected = description_of<Row>().columns.size();
  if (cells.size() != expected) {
    throw InputError(fmt::format("expected {} values, found {}", expected, cells.size()));
  }
  Row row{};
  RowReader reader{cells};
  visit_fields(reader, row);
  return row;
}

// FNV-1a (Fowler, Noll, Vo). Not against forgery: it finds what a disk or a copy changed.
std::uint64_t checksum_of(const std::vector<Cell>& cells) {
  std::uint64_t sum = 14695981039346656037u;
  const auto add = [&](std::uint64_t byte) { sum = (sum ^ byte) * 1099511628211u; };
  const auto add_word = [&](std::uint64_t word) {
    for (int i = 0; i < 8; ++i) add(word >> (8 * i) & 0xff);
  };
  for (const Cell& cell : cells) {
    add(cell.index());
    if (const auto* whole = std::get_if<std::int64_t>(&cell)) {
      add_word(static_cast<std::uint64_t>(*whole));
    } else if (const auto* number = std::get_if<double>(&cell)) {
      std::uint64_t word = 0;
      std::memcpy(&word, number, sizeof(word));
      add_word(word);
    } else if (const auto* text = std::get_if<std::string>(&cell)) {
      add_word(text->size());
      for (const char c : *text) add(static_cast<unsigned char>(c));
    }
  }
  return sum;
}

std::string_view to_text(CellType type) {
  switch (type) {
    case CellType::Integer:
      return "INTEGER";
    case CellType::Real:
      return "REAL";
    case CellType::Text:
      return "TEXT";
  }
  return "";
}

std::string text_of(const Cell& cell) {
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *whole);
  if (const auto* number = std::get_if<double>(&cell)) return fmt::format("{}", *number);
  if (const auto* text = std::get_if<std::string>(&cell)) {
    return fmt::format("\"{}\"", printable(*text));
  }
  return "nothing";
}

std::optional<KernelKind> parse_kernel_kind(std::string_view text) {
  return parse_enum<KernelKind>(text, static_cast<int>(KernelKind::AdamW) + 1);
}
std::optional<Phase> parse_phase(std::string_view text) {
  return parse_enum<Phase>(text, static_cast<int>(Phase::Step) + 1);
}
std::optional<TransferKind> parse_transfer_kind(std::string_view text) {
  return parse_enum<TransferKind>(text, static_cast<int>(TransferKind::Receive) + 1);
}

#define MESHWRIGHT_ROWS(Row)                              \
  template const TableDescription& description_of<Row>(); \
  template std::vector<Cell> cells_of(const Row&);        \
  template std::vector<Cell> key_of(const Row&);          \
  template Row row_of<Row>(const std::vector<Cell>&);
MESHWRIGHT_ROWS(DeviceRecord)
MESHWRIGHT_ROWS(KernelTime)
MESHWRIGHT_ROWS(TransferTime)
MESHWRIGHT_ROWS(LinkTime)
MESHWRIGHT_ROWS(FitParameter)
MESHWRIGHT_ROWS(Residual)
#undef MESHWRIGHT_ROWS

}  // namespace meshwright
