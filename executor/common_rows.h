#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/kernel/kernel.h"

namespace meshwright {

// An operand with the buffer it lies in.
struct Placed {
  const Operand* operand = nullptr;
  std::byte* buffer = nullptr;
};

// Elements that follow each other `stride` elements apart.
struct Row {
  std::byte* start = nullptr;
  std::int64_t stride = 1;
};

// Operands of the same sizes, walked side by side: dimensions that follow each other without a gap
// in all of them are one, and the last of these is a row. Operands without gaps are one row.
class CommonRows {
 public:
  // `width` is the bytes of an element.
  CommonRows(std::span<const Placed> operands, std::size_t width);

  // Keeps one of `shares` parts, as equal as can be, of the longest dimension.
  void keep_share(std::size_t share, std::size_t shares);

  // Elements of a row.
  std::size_t row_size() const { return static_cast<std::size_t>(dims_.back().size); }
  // Calls visit(rows) with the rows of all operands that belong together, in row-major order.
  template <class Visit>
  void for_each(Visit visit) const {
    std::vector<std::int64_t> at(dims_.size() - 1);
    std::vector<Row> rows = first_;
    if (is_empty()) return;
    for (;;) {
      visit(std::span<const Row>(rows));
      std::size_t d = at.size();
      while (d > 0 && ++at[d - 1] == dims_[d - 1].size) {
        move(rows, d - 1, -(dims_[d - 1].size - 1));
        at[--d] = 0;
      }
      if (d == 0) return;
      move(rows, d - 1, 1);
    }
  }

 private:
  struct CommonDim {
    std::int64_t size = 1;
    std::vector<std::int64_t> strides;  // by operand
  };

  bool is_empty() const;
  void move(std::vector<Row>& rows, std::size_t dim, std::int64_t places) const;

  std::size_t width_;
  std::vector<CommonDim> dims_;  // at least one
  std::vector<Row> first_;       // by operand
};

void copy_row(const Row& from, const Row& to, std::size_t count, std::size_t width);
// Copies what `from` holds to `to`, of the same sizes. Elements that are the same stay.
void copy_elements(const Placed& from, const Placed& to, std::size_t width);

// The places of a dimension from `start` on.
Operand narrowed(Operand operand, std::size_t dim, std::int64_t start, std::int64_t size);

}  // namespace meshwright
