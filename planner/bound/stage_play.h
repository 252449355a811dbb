#pragma once

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "planner/bound/plan_bound.h"
#include "simulator/lowering/weight_buckets.h"

namespace meshwright {

// Not known yet.
inline constexpr double kNotSent = std::numeric_limits<double>::infinity();

// Plays a plan's stages, chunk by chunk: each takes what its blocks take alone, and what goes
// between stages its price. Where the state is open, nothing is done for it and as little kept as
// can be.
class StagePlay {
 public:
  // All must outlive this.
  StagePlay(Bounds& bounds, const PlanChoices& choices, const BlockBounds& recomputing,
            const BlockBounds& plain, bool any_state);

  double step();
  Bytes bytes() const;
  Bytes host_bytes() const;

 private:
  // Weights whose gradients are summed together, and where the last of these is complete: after
  // so many repetitions of blocks of the backward, at this weight of the next one.
  struct Bucket {
    std::int64_t elements = 0;
    std::int64_t repetition = 0;
    std::size_t weight = 0;
    bool of_layers = false;
    double price = kNever;  // of its sum over the replicas, where known
  };
  // Of a chunk's layers, in one entry of the order.
  struct Gathers {
    double sum = 0, least = 0, most = 0;
  };
  struct Chunk {
    std::vector<BlockRun> runs;
    std::optional<Gathers> gathers;  // where known
    std::vector<Bucket> buckets;
    MaxPlus forward = MaxPlus::unit(), backward = MaxPlus::unit();
    double forward_s = 0, backward_s = 0;  // of kernels
    // Of a micro-batch: what is kept, and the most that is there besides what others keep.
    Bytes kept, forward_peak, backward_peak;
    Bytes away;  // on the host in between
  };
  // Gradients that are summed over the replicas together.
  struct Sync {
    double ready = 0;
    double done_s = 0;  // of the stage's kernels, up to the last that adds to them
    std::int64_t elements = 0;
    bool of_layers = false, tied = false;
    double price = 0, lost_s = 0;
  };
  struct Stage {
    LaneTimes state = never();
    std::size_t next = 0;  // item
    // When the lanes to and from the neighbours are free, forward and backward.
    double sends[2] = {kNever, kNever}, receives[2] = {kNever, kNever};
    double send_s[2] = {}, receive_s[2] = {};  // of a message
    double loss = 0;                           // of compute, while replicas transfer
    std::vector<Sync> syncs;
    std::map<std::size_t, Sync> tied;  // by weight
    double scattered = kNever;         // when the last sum of every micro-batch is there
    PipelineItem forward;              // the last one, and when it started
    double forward_start = 0;
    double done_s = 0;          // of kernels
    std::int64_t elements = 0;  // of trained weights
    std::int64_t frozen = 0;
    std::vector<std::int64_t> buckets;  // elements of each
  };

  const BlockBound& block_of(const BlockRun& run) const {
    return (run.recomputes ? costs_ : plain_).blocks[run.block];
  }
  bool turns_at_once(std::size_t chunk) const;
  void make_chunks();
  void price_messages();
  void cut_buckets(Chunk& chunk) const;
  void count_weights();
  void run_stages();
  bool advance(std::size_t stage);
  bool receive(Stage& stage, const PipelineItem& item);
  void compute(std::size_t number, const PipelineItem& item);
  void wait_for_copies(Stage& stage, const PipelineItem& item, double start);
  LaneTimes after_gathers(std::size_t number, const PipelineItem& item, const LaneTimes& state);
  const Gathers& gathers_of(std::size_t number, std::size_t chunk);
  void send(std::size_t number, const PipelineItem& item);
  double& message(bool forward, std::int32_t chunk, std::int32_t microbatch);
  LaneTimes finish_gradients(std::size_t number, const PipelineItem& item);
  void note_tied(Stage& stage, const BlockBound& block, const LaneTimes& state, double done) const;
  void add_tied(std::size_t number);
  void price(std::size_t number, Sync& sync);
  double end_of_stage(const Stage& stage) const;
  // What a device updates of so many elements.
  std::int64_t owned(std::int64_t elements) const { return padded(elements, owners()) / owners(); }
  // Layers that are rerun together keep less than any by itself.
  bool is_rerun_together(const BlockBound& block) const {
    return block.layer && choices_.recompute.kind == Recompute::Uniform &&
           choices_.recompute.layers > 1;
  }
  double copy_lane_s(std::size_t number);
  double state_copy_s(const Stage& stage);
  double update_s(const Stage& stage);
  double gathers_s(std::size_t number);
  double gather_price(std::size_t number, const Sync& sync);
  double replica_lane_s(std::size_t number);
  // Moments and master weights of so many elements.
  Bytes optimizer_bytes(std::int64_t elements) const;
  Bytes state_bytes(const Stage& stage) const;
  Bytes activations(std::size_t number) const;
  std::int64_t owners() const { return choices_.zero > 0 ? choices_.dp : 1; }

  Bounds& bounds_;
  const PlanChoices& choices_;
  const BlockBounds &costs_, &plain_;
  const Setting& setting_;
  const bool any_state_;  // zero and bucket are open
  Bounds::Prices& prices_;
  const PipelineItems& items_;
  const std::int64_t microbatches_;
  const Plan element_plan_;  // for what elements are
  std::vector<Chunk> chunks_;
  std::vector<Stage> stages_;
  std::vector<double> messages_;  // when each can be taken, by direction, chunk and micro-batch
};

}  // namespace meshwright
