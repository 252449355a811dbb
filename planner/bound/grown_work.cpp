#include "planner/bound/grown_work.h"

#include <cassert>

#include "costmodel/base/checked.h"

namespace meshwright {
namespace {

// Goes over the numbers of two things that are built alike.
class Growth {
 public:
  explicit Growth(std::int64_t samples) : samples_(samples) {}

  void add(std::int64_t& number, std::int64_t two) const {
    if (two != number) number += checked_multiply(two - number, samples_ - 1);
  }
  void add(Extents& sizes, const Extents& two) const {
    assert(sizes.size() == two.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) add(sizes[i], two[i]);
  }
  void add(Operand& operand, const Operand& two) const {
    add(operand.offset, two.offset);
    add(operand.sizes, two.sizes);
    add(operand.strides, two.strides);
  }
  void add(ShardRange& range, const ShardRange& two) const {
    add(range.start, two.start);
    add(range.size, two.size);
  }
  void add(DimPlace& place, const DimPlace& two) const {
    add(place.ranges, two.ranges);
    add(place.size, two.size);
  }
  void add(OperandRange& range, const OperandRange& two) const {
    add(range.first, two.first);
    add(range.count, two.count);
  }
  template <class Value>
  void add(std::vector<Value>& values, const std::vector<Value>& two) const {
    assert(values.size() == two.size());
    for (std::size_t i = 0; i < values.size(); ++i) add(values[i], two[i]);
  }
  template <class Value>
  void add(std::optional<Value>& value, const std::optional<Value>& two) const {
    assert(value.has_value() == two.has_value());
    if (value) add(*value, *two);
  }
  void add(Kernel& kernel, const Kernel& two) const {
    assert(kernel.kind == two.kind);
    add(kernel.operands, two.operands);
    add(kernel.first_row, two.first_row);
    add(kernel.ranges, two.ranges);
    add(kernel.place, two.place);
  }
  void add(Transfer& transfer, const Transfer& two) const {
    assert(transfer.kind == two.kind);
    add(transfer.source, two.source);
    add(transfer.target, two.target);
    add(transfer.source_cut.parts, two.source_cut.parts);
    add(transfer.target_cut.parts, two.target_cut.parts);
  }

 private:
  const std::int64_t samples_;
};

}  // namespace

Transfer grown(const Transfer& one, const Transfer& two, std::int64_t samples) {
  Transfer transfer = one;
  Growth(samples).add(transfer, two);
  return transfer;
}

void grow(Kernel& kernel, const Kernel& one, const Kernel& two, std::int64_t samples) {
  kernel = one;
  Growth(samples).add(kernel, two);
}

}  // namespace meshwright
