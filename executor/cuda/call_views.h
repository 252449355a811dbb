#pragma once

#include "executor/cuda/attention_work.h"

namespace meshwright::work {

// The operands of a call as work takes them. `fits` says afterwards whether all were of a form that
// work can have.
template <class Stored>
class CallViews {
 public:
  using Real = RealOf<Stored>;
  explicit CallViews(const KernelCall& call) : call_(call) {}

  bool fits() const { return fits_; }
  void refuse() { fits_ = false; }

  // Of those that are computed with; the counts of rows may stand behind them.
  std::size_t last() const {
    const std::size_t end = call_.operand_count() - 1;
    return call_.kernel.counts == end ? end - 1 : end;
  }
  std::int64_t count(std::size_t i) const { return element_count_of(call_.operand(i)); }
  std::int64_t columns(std::size_t i) const { return call_.operand(i).sizes.back(); }
  std::int64_t rows(std::size_t i) const { return columns(i) == 0 ? 0 : count(i) / columns(i); }

  // Numbers of the run's precision.
  In<Stored> in(std::size_t i) { return elements<const Stored>(i, BufferElement::Real); }
  Out<Stored> out(std::size_t i) { return elements<Stored>(i, BufferElement::Real); }
  RowsOf<const Stored> in_rows(std::size_t i) { return rows_of<const Stored>(i, kReal); }
  RowsOf<Stored> out_rows(std::size_t i) { return rows_of<Stored>(i, kReal); }
  const Stored* in_vector(std::size_t i) { return vector<const Stored>(i, kReal); }
  // Statistics, which 16-bit runs keep in fp32.
  In<Real> statistic(std::size_t i) { return elements<const Real>(i, kStatistic); }
  Out<Real> out_statistic(std::size_t i) { return elements<Real>(i, kStatistic); }
  In<std::int32_t> index(std::size_t i) {
    return elements<const std::int32_t>(i, BufferElement::Index);
  }
  Out<std::int32_t> out_index(std::size_t i) {
    return elements<std::int32_t>(i, BufferElement::Index);
  }
  RowsOf<const std::int32_t> index_rows(std::size_t i) {
    return rows_of<const std::int32_t>(i, BufferElement::Index);
  }
  RowsOf<std::int32_t> out_index_rows(std::size_t i) {
    return rows_of<std::int32_t>(i, BufferElement::Index);
  }
  template <class T>
  T* doubles(std::size_t i) {
    return vector<T>(i, BufferElement::Double);
  }
  // What stands before the last operand, if anything is added.
  In<Stored> addend() { return call_.kernel.has_addend ? in(last() - 1) : In<Stored>(); }
  RowsOf<const Stored> addend_rows() {
    return call_.kernel.has_addend ? in_rows(last() - 1) : RowsOf<const Stored>();
  }
  // Of a norm that has a part of each row.
  WholeSums whole_sums(std::size_t i) {
    if (call_.kernel.place.empty()) return {};
    return {doubles<const double>(i), static_cast<double>(call_.kernel.place[1].size)};
  }

  // Calls use(Gradient()) with the type in which an operand has weights' gradients.
  template <class Use>
  bool with_gradient(std::size_t i, Use use) {
    const BufferElement element = call_.operand(i).element;
    if constexpr (sizeof(Stored) == 2) {
      if (element == BufferElement::Single) return use(float());
    }
    if (element != BufferElement::Real) return false;
    return use(Stored());
  }
  template <class Gradient>
  static constexpr BufferElement gradient_element() {
    return std::is_same_v<Gradient, Stored> ? kReal : BufferElement::Single;
  }
  template <class Gradient>
  Out<Gradient> gradients(std::size_t i) {
    return elements<Gradient>(i, gradient_element<Gradient>());
  }
  template <class Gradient>
  RowsOf<Gradient> gradient_rows(std::size_t i) {
    return rows_of<Gradient>(i, gradient_element<Gradient>());
  }
  template <class Gradient>
  Gradient* gradient_vector(std::size_t i) {
    return vector<Gradient>(i, gradient_element<Gradient>());
  }

  template <class T>
  HeadsOf<T> heads(std::size_t i) {
    const Operand& o = operand(i, kReal);
    if (o.sizes.size() != 4 || (o.strides[3] != 1 && o.sizes[3] != 1)) {
      refuse();
      return {};
    }
    return {call_.data<T>(i), o.strides[0], o.strides[1], o.strides[2],
            o.sizes[2],       o.sizes[1],   o.sizes[3]};
  }
  template <class T>
  LogSumsOf<T> log_sums(std::size_t i) {
    const Operand& o = operand(i, kStatistic);
    return {call_.data<T>(i), o.strides[0], o.strides[1], o.strides[2]};
  }
  GlobalPlaces global_places(std::size_t i) {
    GlobalPlaces places;
    const auto& sizes = call_.operand(i).sizes;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      DimPlace dim = call_.kernel.place[d];
      if (d == 0) dim.ranges = {{call_.batch_row, sizes[0]}};
      places.sizes[d] = sizes[d];
      places.places[d] = place_ranges(dim);
    }
    places.dims = static_cast<std::int32_t>(sizes.size());
    return places;
  }
  PlaceRanges place_ranges(const DimPlace& dim) {
    if (!work::fits(dim)) {
      refuse();
      return {};
    }
    return ranges_of(dim);
  }

  // An operand's elements in some of its dimensions: those where `chosen(stride)`, of another one.
  template <class Chosen>
  static Walk walk_where(const Operand& of, const Operand& chosen_by, Chosen chosen) {
    std::vector<std::int64_t> sizes, strides;
    for (std::size_t d = 0; d < of.sizes.size(); ++d) {
      if (!chosen(chosen_by.strides[d])) continue;
      sizes.push_back(of.sizes[d]);
      strides.push_back(of.strides[d]);
    }
    return walk_of(sizes, strides);
  }

 private:
  static constexpr BufferElement kReal = BufferElement::Real;
  static constexpr BufferElement kStatistic =
      sizeof(Stored) == 2 ? BufferElement::Single : BufferElement::Real;

  static std::int64_t element_count_of(const Operand& operand) {
    std::int64_t count = 1;
    for (const std::int64_t size : operand.sizes) count *= size;
    return count;
  }
  const Operand& operand(std::size_t i, BufferElement element) {
    if (call_.operand(i).element != element) refuse();
    return call_.operand(i);
  }
  template <class T>
  ElementsOf<T> elements(std::size_t i, BufferElement element) {
    const Operand& o = operand(i, element);
    return {call_.data<T>(i), walk_of(o.sizes, o.strides)};
  }
  template <class T>
  RowsOf<T> rows_of(std::size_t i, BufferElement element) {
    const Operand& o = operand(i, element);
    const std::size_t outer = o.sizes.size() - 1;
    if (o.strides[outer] != 1 && o.sizes[outer] > 1) refuse();
    return {call_.data<T>(i), walk_of({o.sizes.data(), outer}, {o.strides.data(), outer})};
  }
  template <class T>
  T* vector(std::size_t i, BufferElement element) {
    const Operand& o = operand(i, element);
    const Walk walk = walk_of(o.sizes, o.strides);
    if (element_count_of(o) > 1 && (walk.dims != 1 || walk.strides[0] != 1)) refuse();
    return call_.data<T>(i);
  }

  const KernelCall& call_;
  bool fits_ = true;
};

}  // namespace meshwright::work
