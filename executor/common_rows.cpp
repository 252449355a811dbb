#include "executor/common_rows.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

namespace meshwright {
namespace {

template <std::size_t width>
void copy_apart(const Row& from, const Row& to, std::size_t count) {
  const auto step = [](std::int64_t stride) { return stride * static_cast<std::int64_t>(width); };
  const std::byte* in = from.start;
  std::byte* out = to.start;
  for (std::size_t i = 0; i < count; ++i, in += step(from.stride), out += step(to.stride)) {
    std::memcpy(out, in, width);
  }
}

}  // namespace

CommonRows::CommonRows(std::span<const Placed> operands, std::size_t width) : width_(width) {
  const auto offset = [&](std::int64_t elements) {
    return elements * static_cast<std::int64_t>(width);
  };
  for (const Placed& placed : operands) {
    assert(placed.operand->sizes == operands[0].operand->sizes);
    first_.push_back({placed.buffer + offset(placed.operand->offset)});
  }
  const auto& sizes = operands[0].operand->sizes;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    CommonDim dim{.size = sizes[d]};
    for (const Placed& placed : operands) dim.strides.push_back(placed.operand->strides[d]);
    const auto follows = [&](std::size_t o) {
      return dims_.back().strides[o] == dim.strides[o] * dim.size;
    };
    bool joined = !dims_.empty();
    for (std::size_t o = 0; joined && o < operands.size(); ++o) joined = follows(o);
    if (joined) dim.size *= dims_.back().size;
    if (joined) dims_.pop_back();
    dims_.push_back(std::move(dim));
  }
  if (dims_.empty()) dims_.push_back({1, std::vector<std::int64_t>(operands.size(), 1)});
  for (std::size_t o = 0; o < operands.size(); ++o) first_[o].stride = dims_.back().strides[o];
}

void CommonRows::keep_share(std::size_t share, std::size_t shares) {
  const auto longest = std::ranges::max_element(dims_, {}, &CommonDim::size);
  const auto dim = static_cast<std::size_t>(longest - dims_.begin());
  const auto edge = [&](std::size_t place) {
    return longest->size * static_cast<std::int64_t>(place) / static_cast<std::int64_t>(shares);
  };
  const std::int64_t first = edge(share), size = edge(share + 1) - first;
  move(first_, dim, first);
  longest->size = size;
}

bool CommonRows::is_empty() const {
  return std::ranges::any_of(dims_, [](const CommonDim& dim) { return dim.size == 0; });
}

void CommonRows::move(std::vector<Row>& rows, std::size_t dim, std::int64_t places) const {
  for (std::size_t o = 0; o < rows.size(); ++o) {
    rows[o].start += places * dims_[dim].strides[o] * static_cast<std::int64_t>(width_);
  }
}

void copy_row(const Row& from, const Row& to, std::size_t count, std::size_t width) {
  if (from.start == to.start) return;
  if (from.stride == 1 && to.stride == 1) {
    std::memcpy(to.start, from.start, count * width);
  } else if (width == 4) {
    copy_apart<4>(from, to, count);
  } else if (width == 8) {
    copy_apart<8>(from, to, count);
  } else if (width == 2) {
    copy_apart<2>(from, to, count);
  } else {
    assert(width == 1);
    copy_apart<1>(from, to, count);
  }
}

void copy_elements(const Placed& from, const Placed& to, std::size_t width) {
  const std::array operands = {from, to};
  const CommonRows common(operands, width);
  common.for_each(
      [&](std::span<const Row> rows) { copy_row(rows[0], rows[1], common.row_size(), width); });
}

Operand narrowed(Operand operand, std::size_t dim, std::int64_t start, std::int64_t size) {
  operand.offset += start * operand.strides[dim];
  operand.sizes[dim] = size;
  return operand;
}

}  // namespace meshwright
