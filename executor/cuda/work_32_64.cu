#include "executor/cuda/cuda_machine.cuh"

namespace meshwright::cuda {
namespace {

template <class Unit>
void copy_units(const PlacedOperand& from, const PlacedOperand& to, cudaStream_t stream) {
  const auto data = [](const PlacedOperand& placed) {
    return reinterpret_cast<Unit*>(placed.buffer) + placed.operand.offset;
  };
  std::int64_t count = 1;
  for (const std::int64_t size : from.operand.sizes) count *= size;
  if (count == 0) return;
  const work::Walk in = work::walk_of(from.operand.sizes, from.operand.strides);
  const work::Walk out = work::walk_of(to.operand.sizes, to.operand.strides);
  const auto dense = [](const work::Walk& walk) { return walk.dims == 1 && walk.strides[0] == 1; };
  if (count == 1 || (dense(in) && dense(out))) {
    return check(
        cudaMemcpyAsync(data(to), data(from), static_cast<std::size_t>(count) * sizeof(Unit),
                        cudaMemcpyDeviceToDevice, stream),
        "cudaMemcpyAsync");
  }
  using Work = work::Copy<Unit>;
  launch<run_elements<Work>>(blocks_for(count, kThreads, kMostBlocks), kThreads, stream, count,
                             Work{{data(from), in}, {data(to), out}});
}

}  // namespace

std::optional<StoredWork> work_in_32_or_64_bits(Precision precision) {
  if (precision == Precision::FP64) return stored_work<double>();
  if (precision == Precision::FP32) return stored_work<float>();
  return {};
}

void fill_32_or_64_bits(void* to, std::int64_t count, Precision precision, WorkPlace& place) {
  precision == Precision::FP64 ? fill<double>(to, count, place) : fill<float>(to, count, place);
}

void fill_indices(void* to, std::int64_t count, std::int64_t limit, WorkPlace& place) {
  Launcher(place).elements(count, work::FillIndices{static_cast<std::int32_t*>(to), limit});
}

void launch_copy(const PlacedOperand& from, const PlacedOperand& to, std::size_t width,
                 cudaStream_t stream) {
  switch (width) {
    case 1:
      return copy_units<std::uint8_t>(from, to, stream);
    case 2:
      return copy_units<std::uint16_t>(from, to, stream);
    case 4:
      return copy_units<std::uint32_t>(from, to, stream);
    default:
      assert(width == 8);
      return copy_units<std::uint64_t>(from, to, stream);
  }
}

}  // namespace meshwright::cuda
