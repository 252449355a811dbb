#include "simulator/validation/run_habits.h"

#include "costmodel/base/csv_input.h"

namespace meshwright {
namespace {

bool keeps_products(const CsvInput& table, std::size_t row) {
  const auto selective = table.text(row, "selective");
  if (selective == "products") return true;
  if (selective != "attention") table.fail_expected(row, "selective", "attention or products");
  return false;
}

}  // namespace

RunHabits habits_of(const std::string& software, const std::filesystem::path& data) {
  const CsvInput table = CsvInput::read(data / "published" / "software.csv");
  table.require_columns({"software", "dropout", "selective"});
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.text(row, "software") != software) continue;
    const double dropout = table.number(row, "dropout").value_or(0);
    if (dropout < 0 || dropout >= 1) table.fail_expected(row, "dropout", "a share below 1");
    return {.dropout = dropout, .keeps_products = keeps_products(table, row)};
  }
  return {};
}

}  // namespace meshwright
