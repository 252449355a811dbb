#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "planner/bound/plan_bound.h"
#include "planner/bound/stage_work.h"
#include "simulator/lowering/weight_buckets.h"

namespace meshwright {

// Not known yet.
inline constexpr double kNotSent = std::numeric_limits<double>::infinity();

// Moments and master weights of so many elements; and all state that a device of a stage has. The
// plan says what elements are.
Bytes optimizer_bytes(const Plan& element_plan, std::int64_t elements);
Bytes state_bytes(const StageHolds& stage, const PlanChoices& choices, const Plan& element_plan,
                  const Setting& setting);

// What plans that are played as one differ in: nothing; what they keep, and compute again beside
// what this one does; or how state is summed and shared out, zero and bucket, besides.
enum class LeftOpen { Nothing, Kept, State };

// Plays a plan's stages, chunk by chunk: each takes what its blocks take alone, and what goes
// between stages its price. Where the state is open, nothing is done for it.
class StagePlay {
 public:
  // All must outlive this.
  StagePlay(Bounds& bounds, const PlanChoices& choices, StageWork& work, LeftOpen open);

  // Where the state is not open.
  double step();
  // No more than that, without playing what is done about the state: what lanes have to do, and
  // what the work's ends are followed by, which must be known.
  double least_step();
  // Where it is open.
  StageEnds ends();
  // What the lane between a device and its host has to do in a step, in the stage that does most.
  double copies_s();
  // Of the fullest device.
  struct Fullest {
    Bytes bytes;
    std::size_t stage = 0;
  };
  Fullest fullest() const;
  Bytes host_bytes() const;

 private:
  Bytes apart_at_end(const PlanChoices& less) const;
  const std::vector<std::vector<BoundBucket>>& buckets_of_kinds() const;
  std::vector<Bytes> whole_in_backward(std::size_t kind) const;
  Bytes backward_peak(std::size_t kind) const;
  Bytes brought_for_updates(std::size_t stage, int zero) const;
  // Of one bucket: its gradients' sum over the replicas, and the gather of its weights. Where only
  // some replicas share state out, they sum, and then those that have the same share sum it.
  struct BucketPrice {
    TransferLoad sum = {}, gather = {}, shares = {};
    double add_s = 0;  // of adding what is summed to the own part
  };
  // What the lanes between replicas have to do in a step, and what it takes of ways out.
  struct ReplicaLoad {
    double lanes[2] = {};
    double shares = 0;  // between those that have the same share of the state
    PortLoad ports = {};
    // Of these what comes after the first backward that sums: sums, and gathers of backwards.
    double sums[2] = {};
    PortLoad sum_ports = {};

    double busier() const { return std::max(lanes[0], lanes[1]); }
    void add(const ReplicaLoad& other) {
      for (std::size_t i = 0; i < 2; ++i) {
        lanes[i] += other.lanes[i];
        sums[i] += other.sums[i];
      }
      shares += other.shares;
      ports.add(other.ports);
      sum_ports.add(other.sum_ports);
    }
  };
  // Of a kind of chunk in a stage, or in all where their devices transfer alike.
  struct ChunkPrices {
    bool known = false;
    std::vector<BucketPrice> buckets;
    double gathers = 0, least = 0, most = 0;  // of layers' weights, in one entry of the order
    PortLoad ports = {};                      // of these
    // By lane: of these gathers, of the kernels that may use what the last of them brings in the
    // forward, of the sums of all gradients, and of the longest of these.
    double gather_lanes[2] = {}, left_s[2] = {}, sum_lanes[2] = {}, longest_sum[2] = {};
    double shares = 0, longest_share = 0;  // of sums among those that have the same share
    ReplicaLoad step = {};                 // of all buckets
    // Buckets in the order in which their gradients are complete; and where every entry gathers, in
    // that of their first use, forward and backward.
    std::vector<std::size_t> completed, used[2];
  };
  // Gradients that are summed over the replicas together.
  struct Sync {
    double ready = 0;
    double done_s = 0;  // of the stage's kernels, up to the last that adds to them
    std::int64_t elements = 0;
    bool of_layers = false, tied = false, routed = false;
    BucketPrice price = {};
  };
  // Transfers between replicas that are under way: of those that follow each other without a gap.
  class UnderWay {
   public:
    void add(double begin, double end) {
      if (begin > until_) from_ = begin;
      until_ = std::max(until_, end);
    }
    bool is_at(double moment) const { return until_ > moment; }
    // What a step takes from a moment on, if kernels lose a share of their speed.
    double slowed(double start, const BlockStep& step, double loss) const;

   private:
    double from_ = kNever, until_ = kNever;
  };
  // Sums over the replicas: those that share state out one after the other, and behind each what
  // has the same share.
  struct Summing {
    double lane = kNever, shares = kNever;  // until when each is taken
    PortTimes ports;
  };
  struct Stage {
    LaneTimes state = never();
    std::size_t next = 0;  // item
    // When the lanes to and from the neighbours are free, forward and backward.
    double sends[2] = {kNever, kNever}, receives[2] = {kNever, kNever};
    double send_s[2] = {}, receive_s[2] = {};  // of a message
    PortLoad sent[2] = {};
    double loss = 0;         // of compute, while replicas transfer
    double update_s = 0;     // of kernels
    double all_updated = 0;  // after the norm
    ReplicaLoad replicas = {};
    // After the last step's norm: when buckets are updated and gathered, as far as they were used.
    double updated = 0, gathered[2] = {};  // the latter by lane
    std::vector<Sync> syncs;
    std::map<std::size_t, Sync> tied;            // by weight
    double scattered[2] = {kNever, kNever};      // when the last sum is there, by lane
    double shares_summed = kNever;               // and the sum of the shares
    std::size_t last_lane = 0;                   // of the latest sum
    double gathers_until[2] = {kNever, kNever};  // and sums: by lane, where every entry gathers
    double not_added = kNever;  // when the last sum is there, if it is not added yet
    double add_s = 0;           // of the kernel that adds the last sum, if it has not
    Summing summing = {};
    UnderWay under_way = {};
    PipelineItem forward;            // the last one
    double previous_start = kNever;  // of the entry before the one at hand
    // Until when copies to the host and back are under way; those to the host but of the last
    // layer, and those that stood before the last forward.
    double copied_out = kNever, copied_back = kNever;
    double copied_but_last = kNever, copied_before = kNever;
    // What micro-batches keep on the device, and until when what goes to the host is on its way at
    // the full speed of its lane; how much of both there is room for, if that is limited.
    Bytes kept;
    double leaving = kNever;
    std::optional<Bytes> room;
    double done_s = 0;                              // of kernels
    std::optional<double> backward, last_backward;  // when the first begins

    // Of the second micro-batch on: the first one's is set, which takes less.
    void add_later(const BucketPrice& price, const PipelineItem& item) {
      add_s = item.microbatch > 0 ? price.add_s : 0;
    }
    void add_summed(double& came) {
      came = std::max(came, not_added) + add_s;
      not_added = kNever;
      add_s = 0;
    }
  };

  void prepare();
  void run();
  void price_messages();
  void run_stages();
  double end_of_step();
  bool advance(std::size_t stage);
  bool receive(Stage& stage, const PipelineItem& item);
  void compute(std::size_t number, const PipelineItem& item);
  void wait_for_copies(Stage& stage) const;
  void note_copies(Stage& stage, const PipelineItem& item, double start);
  void find_room();
  // What a stage has room for besides its state; none: it is not limited, or not known.
  std::optional<Bytes> room_of(std::size_t stage) const;
  // An entry that is played step by step: one that gathers its weights and sums its gradients over
  // the replicas, and one beside which replicas sum.
  class SteppedEntry;
  class GatheredEntry;
  class SlowedEntry;
  void order_uses(ChunkPrices& prices, std::size_t kind) const;
  LaneTimes after_gathers(std::size_t number, const PipelineItem& item, const LaneTimes& state);
  double after_lanes(Stage& stage, const PipelineItem& item, const ChunkPrices& prices,
                     double from) const;
  void wait_for_weights(std::size_t number, const PipelineItem& item);
  void send(std::size_t number, const PipelineItem& item);
  double& message(bool forward, std::int32_t chunk, std::int32_t microbatch);
  // What copies to the device hold the entry at hand back for, layer by layer.
  class CopiesBack;
  void note_tied(Stage& stage, const BlockBound& block, const LaneTimes& state, double done) const;
  void add_tied();
  const ChunkPrices& prices_of(std::size_t number, std::size_t chunk);
  BucketPrice price_of(std::size_t number, std::int64_t elements, bool routed = false);
  double end_of_stage(const Stage& stage) const;
  // What a device updates of so many elements.
  std::int64_t owned(std::int64_t elements, bool routed = false) const {
    return padded(elements, owners(routed)) / owners(routed);
  }
  // What a device of the stage updates, at the least.
  std::int64_t owned(const StageHolds& stage) const {
    return (stage.elements - stage.routed) / owners() + stage.routed / owners(true);
  }
  double copy_s(Bytes bytes);
  double copy_lane_s(std::size_t number);
  double state_copy_s(std::size_t number);
  void add_updates();
  double updated_s(const std::vector<BoundBucket>& buckets, std::size_t number);
  void add_replicas();
  double gathers_s(const Stage& stage) const;
  // What the lanes have to do in a step, in the stage whose have most to.
  double lanes_s();
  double sums_s();
  static StageBackwards backwards_of(const Stage& stage) {
    return {stage.backward.value_or(0), stage.last_backward.value_or(0)};
  }
  double summed_s(const ReplicaLoad& load, const StageBackwards& backwards) const;
  double slowed_s(std::size_t number, double norm);
  double entry_lanes_s(const ChunkPrices& prices, bool forward) const;
  double ports_s(std::size_t number) const;
  double kernels_s(std::size_t number) const;
  // Of the kernel that finds the largest gradient of a stage; and the norm of all behind it.
  double largest_s(std::size_t number);
  double norm_s();
  // How often a bucket is summed and gathered in a step.
  bool knows_shares() const;
  bool sums_in_two_steps(bool routed) const;
  double sums_of(bool tied) const;
  double gathers_of(bool of_layers) const;
  ReplicaLoad load_of(const BucketPrice& price, const BoundBucket& bucket, bool tied = false) const;
  // Experts that replicas share out have their state at fewer of them. Where the state is open, as
  // many as there can be.
  std::int64_t owners(bool routed = false) const {
    if (choices_.zero == 0 && !any_state_) return 1;
    return routed ? repeats_ / sharing_ : state_owners(choices_);
  }
  // Whether several replicas are known to have the same weights, of experts or of all else: which
  // parts of a sequence share experts out is not looked at, nor how some replicas share their
  // state.
  bool is_shared(bool routed) const {
    return routed ? choices_.cp == 1 && !choices_.shard && repeats_ > sharing_ : repeats_ > 1;
  }
  // Weights are gathered after their update, while the next step begins.
  bool gathers_once() const {
    return (choices_.zero == 1 || choices_.zero == 2) && repeats_ > 1 && setting_.engine.repeat;
  }
  // Every entry of the order gathers its weights.
  bool gathers_again() const { return choices_.zero == 3 && choices_.reshard && repeats_ > 1; }
  // A stage's first entry where steps repeat: what it gathers before its first kernel may come
  // while the device still updates, since weights are updated bucket by bucket.
  bool begins_step(std::size_t stage, const PipelineItem& item) const {
    return setting_.engine.repeat && item.forward && item.microbatch == 0 &&
           static_cast<std::size_t>(item.chunk) == stage;
  }
  // Before an entry computes anything: a chunk's first layer starts its forward, and its last one
  // its backward.
  bool gathers_first(const ChunkWork& chunk, bool forward) const {
    return gathers_again() &&
           work_.block_of(forward ? chunk.runs.front() : chunk.runs.back()).layer;
  }
  // They are played bucket by bucket. What is computed again uses them in another order, which may
  // be the better one, and layers that are rerun together in yet another.
  bool plays_gathers() const {
    return gathers_again() && (knows_shares() || sums_in_two_steps(false)) && !any_state_;
  }
  bool plays_gathers(const PipelineItem& item) const {
    const RecomputeChoice& recompute = choices_.recompute;
    const bool together = recompute.kind == Recompute::Uniform && recompute.layers > 1;
    return plays_gathers() && (item.forward || (open_ == LeftOpen::Nothing && !together));
  }

  Bounds& bounds_;
  const PlanChoices& choices_;
  const std::int64_t repeats_;  // devices that have the same weights
  const std::int64_t sharing_;  // replicas that share experts out
  StageWork& work_;
  const Setting& setting_;
  const LeftOpen open_;
  const bool any_state_;  // zero and bucket are open
  const bool alike_;      // devices of all stages transfer alike with those that repeat weights
  // Transfers between replicas begin when a device comes to them, since the others do at that
  // moment; and sums, before which nothing else stands.
  const bool at_once_, sums_at_once_;
  Bounds::Prices& prices_;
  const PipelineItems& items_;
  const std::int64_t microbatches_;
  const Plan element_plan_;                                         // for what elements are
  const std::vector<std::vector<BoundBucket>>* buckets_ = nullptr;  // by kind of chunk
  std::vector<ChunkPrices> chunk_prices_;  // by stage if they differ, then by kind
  std::map<Bytes, double> copies_;         // seconds, as far as known
  std::optional<double> least_part_;       // of what a device computes, if it was asked for
  double copy_rate_ = 0;                   // seconds for a byte
  std::vector<Stage> stages_;
  std::vector<double> messages_;  // when each can be taken, by direction, chunk and micro-batch
};

}  // namespace meshwright
