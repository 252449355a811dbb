#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/ids.h"
#include "costmodel/base/precision.h"
#include "costmodel/base/shared_text.h"
#include "costmodel/base/units.h"
#include "costmodel/kernel/host_copy.h"
#include "costmodel/kernel/kernel.h"
#include "costmodel/kernel/transfer.h"

namespace meshwright {

using BufferId = Id<struct BufferTag>;
using TaskId = Id<struct TaskTag>;
using LaneId = Id<struct LaneTag>;

// What memory is used for.
enum class Component { Weights, Gradients, Optimizer, Activations, Transfers, Workspace };
inline constexpr std::size_t kComponents = 6;
std::string_view to_text(Component component);

// Where a buffer is: in the device's memory or in that of its node's host.
enum class Space { Device, Host };

struct Buffer {
  SharedText name;
  std::int64_t count = 0;  // elements
  BufferElement element = BufferElement::Real;
  Component component = Component::Activations;
  // There before the step and after it. Others live from the task that first writes them to the
  // one that last uses them.
  bool persistent = false;
  Space space = Space::Device;  // only copies reach the host's
  // Of rows that are counted when it runs: elements expected to be in use, `count` being room for
  // all that can come. Software that allocates what it needs holds these; an arena holds them all.
  std::optional<std::int64_t> expected = {};
  friend bool operator==(const Buffer&, const Buffer&) = default;
};
Bytes bytes_of(const Buffer& buffer, Precision precision);
Bytes expected_bytes_of(const Buffer& buffer, Precision precision);

// The place of a task in the one order of all tasks of all devices. Computable for a device alone.
struct OrderKey {
  std::int64_t time = 0;   // slot of the pipeline, or what comes after it
  std::int32_t stage = 0;  // within a slot of time, stages in their order
  std::int32_t index = 0;  // within an entry
  friend auto operator<=>(const OrderKey&, const OrderKey&) = default;
};

enum class TaskKind { Kernel, Transfer, Copy };
inline constexpr std::size_t kTaskKinds = 3;

// One thing a device does. Operands and waits are stored in the program's pools.
struct Task {
  TaskKind kind = TaskKind::Kernel;
  std::uint32_t what = 0;  // index into the program's kernels, transfers or copies
  LaneId lane;
  OrderKey key;
  std::optional<std::int32_t> microbatch;  // none: once a step
  bool recompute = false;                  // repeats what the forward did and dropped
  // Starts only when computing has come to its place in the list. Nothing it reads would hold it
  // back, but what it brings takes memory: whole weights, what was on the host.
  bool waits_for_compute = false;
  // Begins a forward of which something goes to the host: starts only when all is there that stood
  // before the one ahead of it of these. What waits for its copy takes memory.
  bool waits_for_copies = false;
  // A kernel that runs only where its last operand, one Index beside those of the kernel, is not 0;
  // what it would write stays as it is elsewhere. Whoever foresees a step takes it for one that
  // runs.
  bool has_predicate = false;
  std::uint32_t first_operand = 0, operand_count = 0;
  std::uint32_t first_wait = 0, wait_count = 0;
  friend bool operator==(const Task&, const Task&) = default;
};

// Where a contiguous shard starts along a dimension.
struct GlobalExtent {
  std::int64_t start = 0;
  std::int64_t size = 0;  // of the whole tensor
  friend bool operator==(const GlobalExtent&, const GlobalExtent&) = default;
};

// A part of a weight that the device holds, flattened into a bucket's buffer.
struct WeightShard {
  std::string name;
  std::vector<GlobalExtent> place;  // start and whole size of each dimension
  Extents sizes;                    // of the shard
  BufferId weight;
  std::optional<BufferId> gradient;  // none: the weight is frozen
  // What is owned of the weight, with more bits: the optimizer updates it, and rounds it to the
  // weight. None: the weight has them, or is frozen.
  std::optional<BufferId> master;
  std::int64_t offset = 0;  // in the bucket, in elements
  // Element of the bucket that the buffer's first one is. Where a buffer ends before the shard
  // does, or starts after it, other devices hold the rest.
  std::int64_t weight_first = 0, gradient_first = 0, master_first = 0;
  // Elements of the flattened shard whose final gradient and optimizer state the device holds.
  std::int64_t owned_first = 0, owned_count = 0;
  bool counted = true;  // false where another device counts the same numbers
  friend bool operator==(const WeightShard&, const WeightShard&) = default;
};

// The device's rows of the global batch: micro-batch m has `micro_batch` rows from
// first_row + m * micro_batch on.
struct BatchPlace {
  std::int64_t global_batch = 0;
  std::int64_t first_row = 0;
  std::int64_t micro_batch = 0;
  std::int64_t sequence = 0;
  friend bool operator==(const BatchPlace&, const BatchPlace&) = default;
};

// The tasks of one device for one step, in the order they are launched. A task runs in its lane
// after the lane's earlier tasks and after the tasks it waits for; all of them stand before it in
// the list, so the list itself is a valid run. Lane 0 computes; copies to the host have a lane, and
// those from it another.
struct Program {
  DeviceId device;
  Precision precision = Precision::FP32;
  BatchPlace batch;
  std::vector<Kernel> kernels;
  std::vector<Transfer> transfers;
  std::vector<HostCopy> copies;
  std::vector<Buffer> buffers;
  std::vector<std::string> lanes;
  std::vector<Task> tasks;
  std::vector<BufferId> operands;
  std::vector<TaskId> waits;
  std::vector<WeightShard> weights;
  std::optional<BufferId> loss;  // a Double: after the step, its mean loss
  std::optional<BufferId> clip;  // Doubles: the factor gradients were scaled by, their norm
  // An Index: whether all gradients of all devices were finite. None: weights are updated anyway.
  std::optional<BufferId> finite;
  friend bool operator==(const Program&, const Program&) = default;

  const Kernel& kernel(const Task& task) const { return kernels[task.what]; }
  const Transfer& transfer(const Task& task) const { return transfers[task.what]; }
  const HostCopy& copy(const Task& task) const { return copies[task.what]; }
  std::span<const BufferId> operands_of(const Task& task) const {
    return {operands.data() + task.first_operand, task.operand_count};
  }
  std::span<const TaskId> waits_of(const Task& task) const {
    return {waits.data() + task.first_wait, task.wait_count};
  }
};

// One line per task.
std::string program_text(const Program& program);

}  // namespace meshwright
