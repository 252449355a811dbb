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
#include "simulator/layout/op_layouts.h"
#include "simulator/layout/relayout_step.h"

namespace meshwright {

// Devices that work on the same chunks.
struct Slot {
  Mesh mesh;
  friend bool operator==(const Slot&, const Slot&) = default;
};

// Of the model's ops, in the order they are computed.
struct OpRange {
  std::size_t first_op = 0, end_op = 0;
  bool contains(std::size_t op) const { return first_op <= op && op < end_op; }
  friend bool operator==(const OpRange&, const OpRange&) = default;
};

// A range of the model's ops, and where they are.
struct Chunk {
  std::size_t first_op = 0, end_op = 0;
  std::size_t slot = 0;
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

// How an op is computed on the devices that share its work, where there are several ways.
enum class Implementation {
  Local,  // each device by itself, on the shards that the division of the work gives it
  // Attention on a part of the sequence each: keys and values of all parts come past every device,
  // from neighbour to neighbour. Over two axes these are rings of rings.
  Ring,
  // The same with all keys, then all values brought together first, and gradients of them summed
  // whole (Li et al. 2021, arXiv 2105.13120).
  RingSelfAttention,
  // A product whose input and matrix are both gathered along the dimension that is summed over:
  // part by part, each sent to all by the device that keeps it and added to the sum while the next
  // one is under way (van de Geijn and Watts 1997).
  Summa,
};

// What is done with an op's operands between its kernels and what is kept between ops, by the
// operand's position; none: nothing. A tensor is kept as its producer's steps leave it, an input of
// the model as its first reader wants it, and its gradient is kept alike.
struct OpRelayouts {
  using BySteps = std::map<std::size_t, RelayoutSteps>;
  BySteps inputs;            // from what is kept to what the op reads
  BySteps outputs;           // from what the op computes to what is kept
  BySteps output_gradients;  // from what is kept to what the op's gradients read
  BySteps input_gradients;   // from what they compute to what is kept
  // Weights that are kept cut more than the op reads them are gathered for it, and their gradients
  // of every micro-batch are scattered as the weights are kept.
  BySteps weights;           // from what is kept to what the op reads
  BySteps weight_gradients;  // from what the op computes to what is kept
  friend bool operator==(const OpRelayouts&, const OpRelayouts&) = default;
};

// How ops are computed. Besides `work` every op's batch is cut by Plan::batch_axes.
struct OpPlan {
  std::string op;  // as in the model's blocks: "layers.*.attention.qkv"
  // Those of the model's ops in this range; none: all of that name.
  std::optional<OpRange> range = {};
  DividedWork work = {};
  Implementation implementation = Implementation::Local;
  OpRelayouts relayouts = {};
  friend bool operator==(const OpPlan&, const OpPlan&) = default;
};

// Axes whose devices share the state of weights out among them: buckets are flattened and each
// device has one range of them. ZeRO-1 shares optimizer state, ZeRO-2 gradients too, ZeRO-3 weights
// too; over some of the batch's axes and not all, what others call hybrid sharding.
struct StateAxes {
  std::vector<AxisId> optimizer, gradients, weights;
  friend bool operator==(const StateAxes&, const StateAxes&) = default;
};

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
  // Axes that cut the batch of every op, major to minor: their devices are replicas.
  std::vector<AxisId> batch_axes;
  std::vector<OpPlan> ops;                  // of several that name an op the last one counts
  std::vector<RecomputeSegment> recompute;  // in order, without overlap
  std::vector<OffloadedTensors> offload;    // each buffer of a chunk at most once
  // Whether moments and master weights are on the host, and on the device only around each bucket's
  // update.
  bool offload_optimizer = false;
  StateAxes state;
  // Of experts: tokens of a sequence that each has room for, as a multiple of an equal share; later
  // ones are passed over. None: all that choose it.
  std::optional<double> expert_capacity = {};
  // What the fullest of the devices that share experts out is expected to get, by an equal share:
  // what is simulated. A run counts.
  double expert_imbalance = 1;
  Bytes bucket = 25_MiB;          // gradients that are reduced together
  bool overlap_gradients = true;  // reduce a bucket as soon as it is complete
  // Where weights are shared out: how many buckets ahead of its first use a bucket's weights are
  // gathered, within an entry of the order; 0: right before it.
  std::int64_t prefetch = 1;
  // Where weights are shared out: whether weights are whole only while an entry needs them, or stay
  // so from their first use to their last.
  bool reshard = true;
  std::vector<std::vector<OrderEntry>> order;  // of each slot
  friend bool operator==(const Plan&, const Plan&) = default;
};

// Whether numbers have too few bits for sums of many: statistics, optimizer state and a copy of the
// weights are then kept in fp32.
bool is_mixed(Precision precision);
// Whether its range is so small that gradients of a scaled loss may overflow: the step is then
// skipped.
bool skips_steps(Precision precision);
BufferElement state_element(const Plan& plan);
BufferElement gradient_element(const Plan& plan);
// How many replicas there are.
std::int64_t replica_count(const Plan& plan);
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

std::string_view to_text(Implementation implementation);
std::optional<Implementation> parse_implementation(std::string_view text);

// "F0.3" is the forward of chunk 0 for micro-batch 3; B, I, W the gradients.
std::string to_text(const OrderEntry& entry);
std::optional<OrderEntry> parse_order_entry(std::string_view text);

}  // namespace meshwright
