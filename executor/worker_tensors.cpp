#include <map>

#include "executor/element_numbers.h"
#include "executor/weight_shards.h"
#include "executor/worker.h"

// Weights and gradients of a worker as parts of whole tensors.
namespace meshwright {

void Worker::initialize(const Initializer& initializer) {
  name_errors("before the first step", [&] { write_weights(initializer); });
}

void Worker::write_weights(const Initializer& initializer) {
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    if (program_.buffers[b].persistent) buffers_.fill(BufferId(b), 0, LaneId(0));
  }
  // By the buffer they are in, and with the element of the bucket that is its first.
  std::map<BufferId, std::vector<std::pair<const WeightShard*, std::int64_t>>> shards;
  for (const WeightShard& shard : program_.weights) {
    shards[shard.weight].emplace_back(&shard, shard.weight_first);
    if (shard.master) shards[*shard.master].emplace_back(&shard, shard.master_first);
  }
  for (const auto& [id, in_buffer] : shards) {
    const Buffer& buffer = program_.buffers[id.index()];
    std::vector<std::byte> bytes(buffers_.memory_of(id).size());
    for (const auto& [shard, first] : in_buffer) {
      const WeightValues values = initializer(shard->name, global_shape(*shard));
      for_each_element(*shard, [&, first = first](std::int64_t local, std::int64_t global) {
        const std::int64_t at = local - first;
        if (at < 0 || at >= buffer.count) return;
        set_number(bytes, at, values(global), buffer.element, program_.precision);
      });
    }
    device_.write(LaneId(0), bytes, buffers_.start_of(id));
  }
  device_.finish();
}

void Worker::put_weights(GlobalTensors& tensors) const {
  std::map<BufferId, std::vector<double>> values;
  for (const WeightShard& shard : program_.weights) {
    const BufferId held = shard.master.value_or(shard.weight);
    std::vector<double>& buffer = values[held];
    if (buffer.empty()) buffer = buffers_.numbers_in(held, LaneId(0));
    put_shard(shard, {buffer, shard.master ? shard.master_first : shard.weight_first}, nullptr,
              tensors);
  }
}

void Worker::put_gradients(GlobalTensors& tensors) const {
  struct Unscaled {
    std::vector<double> numbers;
    std::vector<bool> valid;
  };
  std::map<BufferId, Unscaled> buffers;
  for (const WeightShard& shard : program_.weights) {
    if (!shard.gradient) continue;
    const auto values = values_.find(*shard.gradient);
    if (values == values_.end()) continue;
    const auto [entry, added] = buffers.try_emplace(*shard.gradient);
    auto& [numbers, valid] = entry->second;
    if (added) {
      valid = final_elements(program_, *shard.gradient);
      for (const double number : values->second) numbers.push_back(number / loss_scale_);
    }
    put_shard(shard, {numbers, shard.gradient_first}, &valid, tensors);
  }
}

}  // namespace meshwright
