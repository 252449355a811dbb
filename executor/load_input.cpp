#include "executor/load_input.h"

#include <fmt/format.h>

#include <stdexcept>

namespace meshwright {
namespace {

// What a device takes of a row: `inner` numbers for each place.
std::vector<std::int32_t> taken(const std::vector<std::int32_t>& values, const DimPlace& part,
                                std::int64_t inner) {
  std::vector<std::int32_t> own;
  for (const ShardRange& range : part.ranges) {
    const auto first = values.begin() + range.start * inner;
    own.insert(own.end(), first, first + range.size * inner);
  }
  return own;
}

void write_row(Device& device, LaneId lane, const std::vector<std::int32_t>& values,
               const Places& places, std::int32_t* to) {
  const auto write = [&](std::span<const std::int32_t> from, std::int32_t* start) {
    device.write(lane, std::as_bytes(from), reinterpret_cast<std::byte*>(start));
  };
  if (places.even() && (places.stride() == 1 || places.count() == 1)) return write(values, to);
  for (std::int64_t i = 0; i < places.count(); ++i) {
    write(std::span(values).subspan(static_cast<std::size_t>(i), 1), to + places[i]);
  }
}

}  // namespace

void load_input(Device& device, LaneId lane, const DataSource& data, const Kernel& kernel,
                std::byte* buffer, std::int64_t step, std::int64_t row) {
  const Operand& y = kernel.operands[0];
  if (y.element != BufferElement::Index) {
    throw std::logic_error(fmt::format("the input {} does not hold indices", kernel.name));
  }
  const bool has_batch = y.sizes.size() > 1;
  const std::int64_t rows = has_batch ? y.sizes[0] : 1;
  const std::size_t first = has_batch ? 1 : 0;
  const Places places(std::span(y.sizes).subspan(first), std::span(y.strides).subspan(first));
  if (places.count() == 0) return;
  // A device may take a part of the row.
  const DimPlace& part = kernel.place.at(first);
  const std::int64_t inner = places.count() / y.sizes[first];  // of a place of the row
  std::vector<std::int32_t> values(static_cast<std::size_t>(inner * part.size));
  for (std::int64_t r = 0; r < rows; ++r) {
    read_input(data, kernel.name, step, has_batch ? row + r : 0, values);
    write_row(
        device, lane, taken(values, part, inner), places,
        reinterpret_cast<std::int32_t*>(buffer) + y.offset + (has_batch ? r * y.strides[0] : 0));
  }
}

}  // namespace meshwright
