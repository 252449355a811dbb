#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "costmodel/kernel/kernel.h"
#include "executor/step_settings.h"

namespace meshwright {

// Offsets of the places of an operand's dimensions in row-major order. Dimensions that follow each
// other without a gap are one.
class Places {
 public:
  Places(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      count_ *= sizes[i];
      if (!dims_.empty() && dims_.back().stride == strides[i] * sizes[i]) {
        dims_.back() = {dims_.back().size * sizes[i], strides[i]};
      } else if (sizes[i] != 1) {
        dims_.push_back({sizes[i], strides[i]});
      }
    }
    if (dims_.empty()) dims_.push_back({1, 0});
  }

  std::int64_t count() const { return count_; }
  bool even() const { return dims_.size() == 1; }
  std::int64_t stride() const { return dims_.back().stride; }
  std::int64_t operator[](std::int64_t place) const {
    if (even()) return place * dims_[0].stride;
    std::int64_t offset = 0;
    for (std::size_t i = dims_.size(); i-- > 0;) {
      offset += place % dims_[i].size * dims_[i].stride;
      place /= dims_[i].size;
    }
    return offset;
  }

 private:
  struct PlacesDim {
    std::int64_t size, stride;
  };
  std::int64_t count_ = 1;
  std::vector<PlacesDim> dims_;
};

// Of what a Loss adds to the loss of a step.
inline double loss_factor(const Kernel& kernel) {
  const auto* scale = std::get_if<ScaleAttributes>(&kernel.attributes);
  return scale ? scale->factor : 1;
}

// The place in the whole tensor of a shard's place along a dimension.
inline std::int64_t place_at(const DimPlace& dim, std::int64_t place) {
  for (const ShardRange& range : dim.ranges) {
    if (place < range.size) return range.start + place;
    place -= range.size;
  }
  assert(false);
  return 0;
}

// All dimensions but the last are rows.
template <class T>
struct Rows {
  T* data;
  Places places;
  std::int64_t columns;
  std::int64_t step;  // from one column to the next

  std::int64_t count() const { return places.count(); }
  T* operator[](std::int64_t row) const { return data + places[row]; }
};

template <class T>
struct Elements {
  T* data;
  Places places;

  std::int64_t count() const { return places.count(); }
  T& operator[](std::int64_t i) const { return data[places[i]]; }
};

// Two sums of every row, over all its columns, of which a kernel has some.
struct WholeRowSums {
  const double* sums;
  double length;  // columns of a whole row

  const double* operator[](std::int64_t row) const { return sums + 2 * row; }
  template <class Real>
  Real mean(std::int64_t row, std::int64_t which) const {
    return static_cast<Real>(sums[2 * row + which] / length);
  }
};

// A kernel with what it works on: for each operand the start of its buffer.
struct KernelCall {
  const Kernel& kernel;
  std::span<std::byte* const> buffers;
  const StepSettings& settings;
  std::int64_t batch_row = 0;  // of the global batch, where the micro-batch starts
  // What the operand Kernel::counts holds, row-major, where operands are counted and who calls
  // knows.
  std::span<const std::int64_t> counts = {};
  // Where it is 0 when the kernel's turn comes, the kernel does nothing. Null: it runs.
  const std::int32_t* predicate = nullptr;

  std::size_t operand_count() const { return kernel.operands.size(); }
  const Operand& operand(std::size_t i) const { return kernel.operands[i]; }
  template <class Attributes>
  const Attributes& attributes() const {
    return std::get<Attributes>(kernel.attributes);
  }

  template <class T>
  T* data(std::size_t i) const {
    return reinterpret_cast<T*>(buffers[i]) + operand(i).offset;
  }
  template <class T>
  Rows<T> rows(std::size_t i) const {
    const Operand& o = operand(i);
    assert(!o.sizes.empty());
    const std::size_t outer = o.sizes.size() - 1;
    return {data<T>(i), Places({o.sizes.data(), outer}, {o.strides.data(), outer}), o.sizes.back(),
            o.strides.back()};
  }
  // Rows whose columns lie side by side.
  template <class T>
  Rows<T> dense_rows(std::size_t i) const {
    Rows<T> result = rows<T>(i);
    assert(result.step == 1 || result.columns == 1);
    return result;
  }
  template <class T>
  Elements<T> elements(std::size_t i) const {
    return {data<T>(i), Places(operand(i).sizes, operand(i).strides)};
  }
  // A vector without gaps.
  template <class T>
  std::span<T> vector(std::size_t i) const {
    const Places places(operand(i).sizes, operand(i).strides);
    assert(places.count() <= 1 || (places.even() && places.stride() == 1));
    return {data<T>(i), static_cast<std::size_t>(places.count())};
  }
  // Of a norm: operand `i`, where rows are cut; none: they are whole, and there is no such operand.
  std::optional<WholeRowSums> row_sums(std::size_t i) const {
    if (kernel.place.empty()) return std::nullopt;
    return WholeRowSums{data<const double>(i), static_cast<double>(kernel.place[1].size)};
  }
};

}  // namespace meshwright
