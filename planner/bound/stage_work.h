#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "planner/bound/block_bounds.h"
#include "planner/bound/pipeline_items.h"

namespace meshwright {

// A block of the model and how often it is repeated, one after the other.
struct BlockRun {
  std::size_t block = 0;
  std::int64_t count = 0;
  bool recomputes = false;  // as the plan's first layers of a chunk do
  bool away = false;        // what they keep goes to the host
  friend bool operator==(const BlockRun&, const BlockRun&) = default;
};

// A place in the steps of a chunk, by repetition of blocks.
struct ChunkPlace {
  std::int64_t repetition = 0;
  StepPlace at;
  friend auto operator<=>(const ChunkPlace&, const ChunkPlace&) = default;
};

// Whether it is at such a step or before it.
inline constexpr std::uint16_t kLastStep = std::numeric_limits<std::uint16_t>::max();
inline bool is_passed(const ChunkPlace& place, std::int64_t repetition, std::uint16_t step) {
  return place <= ChunkPlace{repetition, {step, kLastStep}};
}

// Weights whose gradients are summed together, and where the last of these is complete: after so
// many repetitions of blocks of the backward, at this weight of the next one.
struct BoundBucket {
  std::int64_t elements = 0;
  std::int64_t repetition = 0;
  std::size_t weight = 0;
  // Repetitions of the backward: the first that has one of them, the last that uses one.
  std::int64_t first = 0, last_used = 0;
  bool of_layers = false;
  bool routed = false;  // of experts that replicas share out among them
  // Of the chunk's forward, from the first kernel on that may read one of them.
  double forward_left_s = 0;
  // Where one of them is first used, forward and backward, and the last gradient complete.
  std::optional<ChunkPlace> uses[2] = {};
  ChunkPlace completes = {};
};

// Repetitions of a block in a chunk's backward: the first of them, how many, the most that is there
// at that one of the micro-batch besides what is made whole, and how much less at each that
// follows.
struct BackwardRun {
  std::int64_t first = 0, count = 0;
  Bytes peak, kept;
};

// What a chunk does with a micro-batch and keeps of it. Most chunks of a plan are alike.
struct ChunkWork {
  std::vector<BlockRun> runs;
  bool receives = false, sends = false;  // has a chunk before it, behind it
  // A backward of it follows its own forward: then its last layer's activations stay.
  bool turns = false;
  MaxPlus forward = MaxPlus::unit(), backward = MaxPlus::unit();
  std::int64_t repetitions = 0;          // of blocks
  double forward_s = 0, backward_s = 0;  // of kernels
  double rerun_s = 0;                    // of kernels that rerun layers together
  double forward_transfer_s = 0, backward_transfer_s = 0;
  PortLoad forward_ports = {}, backward_ports = {};
  // Of a micro-batch: what is kept, and the most that is there besides what others keep.
  Bytes kept;
  Peaks forward_peak, backward_peak;
  Peaks ahead_peak;  // in the forward, before what stands behind the layers
  std::vector<BackwardRun> backward_runs;
  Bytes away;            // goes to the host in between
  Bytes last_away = {};  // of it what the last of its layers does

  bool is_like(const ChunkWork& other) const {
    return runs == other.runs && receives == other.receives && sends == other.sends &&
           turns == other.turns;
  }
};

// What a device of a stage holds.
struct StageHolds {
  std::int64_t elements = 0;  // of trained weights
  std::int64_t routed = 0;    // of these, of experts that replicas share out among them
  // The same of the device of its tensor group that has least.
  std::int64_t least = 0, least_routed = 0;
  std::int64_t frozen = 0;
  std::vector<std::int64_t> tied;  // elements of each trained weight that several ops use
  Peaks activations;               // the most that kernels find there of all micro-batches
  // What other micro-batches keep beside a backward of each kind of chunk, at the most.
  std::vector<std::optional<Bytes>> beside_backward;
  // When most is kept: micro-batches of each kind of chunk.
  std::vector<std::int64_t> in_flight;
  Bytes away;     // the most of it on the host, of one micro-batch in one chunk
  Bytes leaving;  // of all that are in flight, the most that is there or on its way
  // Where the model ends: the most that kernels find there before it first does.
  Peaks before_end;
  std::int64_t largest_weight = 0;  // in elements
  // The same of trained ones: of experts that replicas share out, and of others.
  std::int64_t largest_routed = 0, largest_common = 0;
};

// When a stage comes to its first backward, and to the first that is its chunk's last; and what
// kernels of all its backwards wait for takes of ways out.
struct StageBackwards {
  double first = 0, last = 0;
  PortLoad ports = {};
  // No gradients are summed before.
  double summed_from(int zero) const { return zero >= 2 ? first : last; }
};

// And when all stages have ended.
struct StageEnds {
  double all = 0;
  std::vector<StageBackwards> backwards;
};

// The work of a plan's stages, whatever is done about its state: zero, bucket and an optimizer on
// the host do not count.
class StageWork {
 public:
  // The bounds must outlive this: of layers that recompute as the plan's first ones of a chunk do,
  // and of the others. `in_order`: memory is taken as tasks are listed, whenever they run.
  // `memory`: what each block has there; empty: what the bounds say.
  StageWork(const PlanChoices& choices, std::vector<std::vector<BlockRun>> chunks,
            const BlockBounds& recomputing, const BlockBounds& others, const PipelineItems& items,
            bool in_order, std::vector<BlockMemory> memory = {});

  const ChunkWork& chunk(std::size_t number) const { return kinds_[kind_of_[number]]; }
  std::size_t chunk_count() const { return kind_of_.size(); }
  std::size_t kind_of(std::size_t chunk) const { return kind_of_[chunk]; }
  const ChunkWork& kind(std::size_t number) const { return kinds_[number]; }
  std::size_t kind_count() const { return kinds_.size(); }
  const StageHolds& stage(std::size_t number) const { return stages_[number]; }
  const BlockBound& block_of(const BlockRun& run) const {
    return (run.recomputes ? costs_ : others_).blocks[run.block];
  }
  Bytes message() const { return costs_.message; }
  // What an allocator that gives nothing back reserves for what is larger than all before it, where
  // the model ends; `whole`: of what is gathered; `sums`: gradients are whole for a while as well.
  Bytes apart_at_end(Bytes whole, bool sums);
  // Layers are rerun as these are, but several before any backward of them.
  void rerun_together(const BlockBounds& one_by_one);
  // By kind of chunk, as lowering cuts them.
  const std::vector<std::vector<BoundBucket>>& buckets(Bytes most, Bytes element);

  // Of stages that do nothing about their state, where it is known.
  std::shared_ptr<const StageEnds> ends;

 private:
  const BlockMemory& memory_of(const BlockRun& run) const {
    return memory_.empty() ? block_of(run).memory : memory_[run.block];
  }
  void add_chunk(const PlanChoices& choices, ChunkWork chunk);
  void add_times(ChunkWork& chunk) const;
  void add_memory(const PlanChoices& choices, ChunkWork& chunk) const;
  void add_away(ChunkWork& chunk, const BlockRun& run, std::int64_t behind) const;
  static void add_to_backward(ChunkWork& chunk, Bytes bytes);
  void hold(std::size_t number, std::size_t stages, const PipelineItems& items);
  static void add_places(BoundBucket& bucket, const BlockWeight& weight, const ChunkWork& chunk,
                         std::int64_t repetition);
  std::vector<BoundBucket> cut(const ChunkWork& chunk, Bytes most, Bytes element) const;

  const BlockBounds &costs_, &others_;
  const bool in_order_;
  const std::vector<BlockMemory> memory_;
  std::vector<ChunkWork> kinds_;
  std::vector<std::size_t> kind_of_;  // each chunk
  std::vector<StageHolds> stages_;
  std::map<Bytes, std::vector<std::vector<BoundBucket>>> buckets_;  // by the most
  std::map<std::pair<Bytes, bool>, Bytes> apart_;                   // at the end, as far as known
};

}  // namespace meshwright
