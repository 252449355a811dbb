#include "executor/weight_shards.h"

#include <algorithm>
#include <limits>

namespace meshwright {
namespace {

void set_range(std::vector<bool>& valid, std::int64_t first, std::int64_t count, bool value) {
  std::fill_n(valid.begin() + first, count, value);
}

void follow(const Transfer& transfer, DeviceId device, std::vector<bool>& valid) {
  if (transfer.kind == TransferKind::Send) return;
  const bool scattered = transfer.kind == TransferKind::ReduceScatter;
  set_range(valid, transfer.offset, transfer.count, !scattered);
  if (!scattered) return;
  const auto place = std::ranges::find(transfer.group, device) - transfer.group.begin();
  const std::int64_t part = transfer.count / static_cast<std::int64_t>(transfer.group.size());
  set_range(valid, transfer.offset + place * part, part, true);
}

}  // namespace

std::vector<std::int64_t> global_shape(const WeightShard& shard) {
  std::vector<std::int64_t> shape;
  for (const GlobalExtent& extent : shard.place) shape.push_back(extent.size);
  return shape;
}

std::vector<bool> final_elements(const Program& program, BufferId buffer) {
  std::vector<bool> valid(static_cast<std::size_t>(program.buffers[buffer.index()].count), true);
  for (const Task& task : program.tasks) {
    if (task.kind == TaskKind::Transfer && program.operands_of(task)[0] == buffer) {
      follow(program.transfer(task), program.device, valid);
    }
  }
  return valid;
}

void put_shard(const WeightShard& shard, const BucketPart& part, const std::vector<bool>* valid,
               GlobalTensors& tensors) {
  GlobalTensor& tensor = tensors[shard.name];
  if (tensor.values.empty()) {
    tensor.shape = global_shape(shard);
    std::size_t count = 1;
    for (const std::int64_t size : tensor.shape) count *= static_cast<std::size_t>(size);
    tensor.values.assign(count, std::numeric_limits<double>::quiet_NaN());
  }
  for_each_element(shard, [&](std::int64_t local, std::int64_t global) {
    if (local < part.first) return;
    const auto from = static_cast<std::size_t>(local - part.first);
    if (from >= part.values.size() || (valid != nullptr && !(*valid)[from])) return;
    tensor.values[static_cast<std::size_t>(global)] = part.values[from];
  });
}

}  // namespace meshwright
