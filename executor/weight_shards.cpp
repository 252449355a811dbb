#include "executor/weight_shards.h"

#include <algorithm>
#include <limits>

#include "executor/kernel_call.h"

namespace meshwright {
namespace {

void mark(const Operand& operand, bool value, std::vector<bool>& valid) {
  const Places places(operand.sizes, operand.strides);
  for (std::int64_t i = 0; i < places.count(); ++i) {
    valid[static_cast<std::size_t>(operand.offset + places[i])] = value;
  }
}

bool reduces(TransferKind kind) {
  return kind == TransferKind::AllReduce || kind == TransferKind::ReduceScatter;
}

// What is reduced is this device's own sum only; what comes out is final.
void follow(const Program& program, const Task& task, BufferId buffer, std::vector<bool>& valid) {
  const Transfer& transfer = program.transfer(task);
  const auto buffers = program.operands_of(task);
  if (reduces(transfer.kind) && buffers.front() == buffer) mark(*transfer.source, false, valid);
  if (transfer.target && buffers.back() == buffer) mark(*transfer.target, true, valid);
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
    if (task.kind == TaskKind::Transfer) follow(program, task, buffer, valid);
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
