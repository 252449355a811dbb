#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/ids.h"
#include "costmodel/base/precision.h"
#include "costmodel/base/units.h"
#include "costmodel/kernel/kernel.h"
#include "costmodel/model/kernel_set.h"
#include "simulator/layout/mesh.h"

namespace meshwright {

// Devices that work on the same chunks, laid out on a mesh: the last axis runs fastest.
struct Slot {
  std::vector<MeshAxis> axes;
  std::vector<DeviceId> devices;
  friend bool operator==(const Slot&, const Slot&) = default;
};

// A range of the model's ops, in the order they are computed, and where they are.
struct Chunk {
  std::size_t first_op = 0, end_op = 0;
  std::size_t slot = 0;
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

// How the work of an op is split: which axes shard which of its dimensions, major to minor. Every
// op's batch is split over dp besides. `input_relayout` are the steps that turn its first input as
// it is produced into what the op reads, `relayout` those that turn what the op produces into what
// its readers expect, and `gradient_relayout` those for the gradient of its first input.
struct OpLayout {
  std::string op;  // as in the model's blocks: "layers.*.attention.qkv"
  std::map<std::string, std::vector<std::string>> work;
  std::vector<std::string> input_relayout;
  std::vector<std::string> relayout;
  std::vector<std::string> gradient_relayout;
  friend bool operator==(const OpLayout&, const OpLayout&) = default;
};

// Steps of a relayout: the axis, and the dimension that it cuts before or after.
inline constexpr std::string_view kSumStep = "all_reduce tp";
inline constexpr std::string_view kGatherStep = "all_gather tp sequence";
inline constexpr std::string_view kScatterStep = "reduce_scatter tp sequence";

// What a slot does with a chunk and a micro-batch at one point of its order.
enum class EntryKind {
  Forward,
  Backward,       // both gradients, op by op
  InputGradient,  // these two apart
  WeightGradient,
};
struct OrderEntry {
  EntryKind kind = EntryKind::Forward;
  std::int32_t chunk = 0;
  std::int32_t microbatch = 0;
  friend bool operator==(const OrderEntry&, const OrderEntry&) = default;
};

// Ops whose results are dropped after the forward and computed again just before the first of
// their gradients. Results that ops outside read stay until those have read them.
struct RecomputeSegment {
  std::size_t first_op = 0, end_op = 0;  // of one chunk
  // Tensors of these ops that are not dropped, nor what their kernels keep beside them.
  std::vector<std::string> kept;
  // Computes everything again, also what no gradient reads, as software does that reruns a layer
  // as it is.
  bool rerun_all = false;
  // What is dropped once more after it has been computed again: in order, without overlap.
  std::vector<RecomputeSegment> inner;
  friend bool operator==(const RecomputeSegment&, const RecomputeSegment&) = default;
};

// What a chunk keeps from its forward for its backward and has on the host in between.
struct OffloadedTensors {
  // By the op that computes them, such as "layers.0.attention.core", or by their own name where
  // that is an input of the model; also what kernels keep besides, such as
  // "layers.0.attention.core.lse".
  std::vector<std::string> tensors;
  // They are brought back when gradients of ops from this one on have been computed, or earlier
  // where one of those needs them. In the chunk, or its end.
  std::size_t back = 0;
  // Already before the entry of the order that stands ahead of the chunk's backward, unless that is
  // its forward.
  bool early = false;
  friend bool operator==(const OffloadedTensors&, const OffloadedTensors&) = default;
};

// What a plan was made from.
struct PlanSource {
  std::string name;
  std::string hash;
  friend bool operator==(const PlanSource&, const PlanSource&) = default;
};

// Every choice about how a model is trained on a cluster. Lowering it needs no further choice.
struct Plan {
  PlanSource model, cluster;
  Precision precision = Precision::FP32;
  // What gradients are added up in where the precision has fewer than 32 bits: this one or FP32.
  Precision gradient_precision = Precision::FP32;
  KernelSet kernels = KernelSet::Executor;
  std::int64_t global_batch = 1;
  std::int64_t sequence = 1;
  std::int64_t micro_batch = 1;
  std::vector<Slot> slots;
  std::vector<Chunk> chunks;
  std::vector<OpLayout> layouts;            // ops that are not named here are not split
  std::vector<RecomputeSegment> recompute;  // in order, without overlap
  std::vector<OffloadedTensors> offload;    // each buffer of a chunk at most once
  // Whether moments and master weights are on the host, and on the device only around each bucket's
  // update.
  bool offload_optimizer = false;
  int zero = 0;                   // what dp shards: 1 optimizer, 2 gradients, 3 weights
  Bytes bucket = 25_MiB;          // gradients that are reduced together
  bool overlap_gradients = true;  // reduce a bucket as soon as it is complete
  // With zero=3: how many buckets ahead of its first use a bucket's weights are gathered, within an
  // entry of the order; 0: right before it.
  std::int64_t prefetch = 1;
  // With zero=3: whether weights are whole only while an entry needs them, or stay so from their
  // first use to their last.
  bool reshard = true;
  std::vector<std::vector<OrderEntry>> order;  // of each slot
  friend bool operator==(const Plan&, const Plan&) = default;
};

// Whether numbers have too few bits for sums of many: statistics, optimizer state and a copy of the
// weights are then kept in fp32.
bool is_mixed(Precision precision);
BufferElement state_element(const Plan& plan);
BufferElement gradient_element(const Plan& plan);
// Size of an axis; 1 where the slot does not have it.
std::int64_t axis_size(const Slot& slot, std::string_view axis);
// Micro-batches that every replica computes in a step.
std::int64_t microbatch_count(const Plan& plan);
// Why a batch cannot be worked off in micro-batches: it is not a multiple of them, or they are more
// than anybody means (time and memory grow with them: every one is lowered and played).
std::optional<std::string> batch_problem(std::int64_t global_batch, std::int64_t dp,
                                         std::int64_t micro_batch);
std::size_t device_count(const Plan& plan);
// In their order.
std::vector<DeviceId> devices_of(const Plan& plan);
// The chunk that holds an op of the model.
std::size_t chunk_of(const Plan& plan, std::size_t op);

// "F0.3" is the forward of chunk 0 for micro-batch 3; B, I, W the gradients.
std::string to_text(const OrderEntry& entry);
std::optional<OrderEntry> parse_order_entry(std::string_view text);

}  // namespace meshwright
