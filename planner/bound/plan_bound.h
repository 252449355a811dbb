#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <variant>
#include <vector>

#include "costmodel/kernel/kernel.h"
#include "costmodel/price/link_use.h"
#include "planner/bound/block_bounds.h"
#include "planner/bound/block_tasks.h"
#include "planner/bound/pipeline_items.h"
#include "planner/bound/shared_memo.h"
#include "planner/bound/stage_work.h"
#include "simulator/choices/plan_choices.h"
#include "simulator/report/predict.h"

namespace meshwright {

// What no plan with some choices is below.
struct PlanBound {
  Seconds step;
  Bytes bytes;       // on its fullest device
  Bytes host_bytes;  // on a host, of one device
  std::size_t fullest_stage = 0;
  std::shared_ptr<const StageEnds> ends = nullptr;  // of any of them; null: not known
};

// Sums in another order differ in their last digits; and where kernels are slowed and links shared,
// the engine's rates are whole numbers.
inline constexpr double kRounding = 1 - 1e-9, kWholeRates = 1 - 1e-8;

// What a device at least transfers about the state of its layers: in a step, and of that from its
// first backward on that sums gradients.
struct StateTransfers {
  int zero = 0;
  double step_s = 0;
  double back_s = 0;
  PortLoad back_ports = {};

  // Sums begin no earlier than the stages come to their backwards.
  Seconds least_step(const StageEnds& ends = {}) const;
};

// How layers are shared out among chunks.
struct Staging {
  std::int64_t virtual_stages = 1;
  std::optional<std::vector<std::int64_t>> layers;  // of each; none: in any way, one chunk a stage
};

class StagePlay;

// Of the devices that have the same weights those among which ZeRO shares one copy of the state
// out.
std::int64_t state_owners(const PlanChoices& choices);

// Every member of a transfer's group has a part of the elements, or all.
void cut_among(Transfer& transfer, std::int64_t elements, BufferElement element);

// Bounds plans without lowering them: stage by stage, from what their blocks cost. One device of
// each stage stands for it, the first of its mesh, with the devices it transfers with.
//
// Every number is the length of a path of the engine's, whose tasks take no less than their prices,
// or what a lane has to do: what is left out makes a bound smaller, never wrong.
class Bounds {
 public:
  // The setting must outlive this. What needs more than `room` is not played: its time is 0. Plans
  // recompute in one of these ways, or the first layers of their chunks in one that drops tensors
  // and the others in the one before it, where one of both finds room by itself.
  Bounds(const BatchChoice& batch, const Setting& setting, std::optional<Bytes> room = {},
         std::vector<RecomputeChoice> recomputes = {});
  Bounds(const Bounds&) = delete;  // few_setting_ refers to few_
  Bounds& operator=(const Bounds&) = delete;
  // The same for another thread: what blocks cost is found once for both.
  std::unique_ptr<Bounds> for_another_thread() const;

  // What the blocks cost, or why they cannot be planned: those that recompute as chosen, and those
  // of a chunk's other layers.
  const std::variant<BlockBounds, Reasons>& blocks(const PlanChoices& choices);
  const std::variant<BlockBounds, Reasons>& other_blocks(const PlanChoices& choices);

  bool has_blocks(const PlanChoices& choices);  // both

  // Of one plan: every choice counts. The choices must have blocks, and be ones that check_choices
  // has nothing against.
  PlanBound of(const PlanChoices& choices);
  // No more than that, without playing what is done about its state.
  PlanBound least_of(const PlanChoices& choices);
  // The time of all plans that compute as much again or more, whatever they need.
  Seconds step_of(const PlanChoices& choices);
  // No more than that, in the same way.
  Seconds least_step_of(const PlanChoices& choices);
  // The time of all plans that differ from it in how state is summed and shared out, zero and
  // bucket: as if nothing were done for it.
  Seconds of_any_state(const PlanChoices& choices);
  // Of these.
  std::shared_ptr<const StageEnds> ends_of(const PlanChoices& choices);
  // What the plan's fullest device needs at least, and with smaller buckets.
  Bytes bytes_of(const PlanChoices& choices);
  // No more than that, before blocks are lowered that recompute; where the choices do not, of all
  // plans that recompute in whatever way.
  Bytes least_bytes(const PlanChoices& choices);
  // What is dropped by every way to recompute with which such a plan may find room. It takes no
  // longer than any of them: nothing is sooner because more is computed again.
  RecomputeChoice least_drops(const PlanChoices& choices);
  // The same where blocks can be planned so, or nothing.
  RecomputeChoice forced_drops(const PlanChoices& choices);
  // Of all plans with these degrees, place, micro-batch and division of work, whatever else is
  // chosen: the stages must do all the work, and keep all the state.
  PlanBound of_any(const PlanChoices& choices);
  // Of all plans with this schedule and these layers besides, that drop as much or more: no later
  // than ends_of. Backwards only where there are few.
  StageEnds least_ends(const PlanChoices& choices);
  Seconds of_schedule(const PlanChoices& choices) { return step_with(least_ends(choices)); }
  Seconds step_with(const StageEnds& ends) const {
    return Seconds(ends.all * kRounding + setting_.step.step_s);
  }
  // Layers of each stage such that the busiest one ends as early as can be, what stands before and
  // after the layers weighed where it falls. One chunk a stage.
  std::vector<std::int64_t> balanced_layers(const PlanChoices& choices);
  // The same before anything is known of blocks: matrix products at the devices' peak.
  Seconds of_mesh(const PlanChoices& choices) const;
  // The same by what kernels take on a device, whatever the place, without transfers: with the
  // micro-batch of the choices, or with any that the batch allows.
  Seconds of_kernels(const PlanChoices& choices);
  Seconds of_any_microbatch(const PlanChoices& choices);
  // Where it is known besides whether the sequence is cut, and experts' products are shared out.
  Seconds of_split(const PlanChoices& choices, std::span<const Staging> ways);
  // The same with what kernels wait for of other devices that share experts, products or the
  // sequence out, by how they are shared out and where.
  Seconds of_division(const PlanChoices& choices);
  // Both of plans that share layers out in one of these ways.
  Seconds of_kernels(const PlanChoices& choices, std::span<const Staging> ways);
  Seconds of_division(const PlanChoices& choices, std::span<const Staging> ways);
  // What one of its kernels uses of a micro-batch at once.
  Bytes largest_kernel(const PlanChoices& choices) { return divided_sample(choices).largest; }
  // What the largest operand of a kernel needs, with the micro-batch of the choices; and where it
  // is known besides whether the sequence is cut, and experts' products are shared out.
  Bytes largest_operand(const PlanChoices& choices);
  Bytes largest_of_split(const PlanChoices& choices);
  // What a device holds besides tensors: a context, and what groups of devices and transfers need.
  Bytes held_always(const PlanChoices& choices) const;
  // Of all plans with these degrees, place and ZeRO stage.
  StateTransfers state_transfers(const PlanChoices& choices);
  // What state alone needs on the fullest device.
  Bytes state_of(const PlanChoices& choices) const;
  // That were asked about so far.
  std::size_t block_count() const { return known_->blocks.size(); }

 private:
  friend class StagePlay;
  // What counts for how a block is lowered: degrees and how many of them are in a node, how the
  // sequence is cut, how experts are shared out, recomputation.
  struct LoweredKey {
    std::int64_t tp = 1;
    TensorForm tensor = TensorForm::OneD;
    std::int64_t depth = 1;
    bool summa = false;
    std::int64_t tp_inside = 1, cp = 1, cp_inside = 1;
    ContextDegrees context = {};
    bool gathers_keys = false;
    std::int64_t ep = 1, etp = 1;
    std::int64_t dp_inside = 0;  // of the replicas that share experts out
    bool sequence_parallel = false;
    RecomputeChoice recompute = {};
    friend auto operator<=>(const LoweredKey&, const LoweredKey&) = default;
  };
  using BlocksKey = std::pair<LoweredKey, std::int64_t>;  // and micro-batch
  static LoweredKey key_of(const PlanChoices& choices);
  // Whatever is recomputed.
  std::shared_ptr<const std::variant<PlannedBlocks, Reasons>> planned_blocks(
      const PlanChoices& choices, BlocksKey key) const;
  std::variant<PlannedBlocks, Reasons> newly_planned(const PlanChoices& choices,
                                                     const LoweredKey& key) const;
  std::variant<BlockBounds, Reasons> newly_bounded(const PlanChoices& choices,
                                                   const BlocksKey& key) const;
  // Of devices that have the same weights: all, those that have the same experts, those that share
  // one copy of the state out, and those that have the same share of it.
  enum class Repeating { All, Experts, Owners, Shares };
  // Of transfers between devices that stand in one way: what, between which stages or in which,
  // how much.
  struct Prices {
    std::map<std::tuple<std::int64_t, std::int64_t, Bytes>, TransferLoad> sends;
    std::map<std::tuple<TransferKind, BufferElement, std::int64_t, std::int64_t, Repeating>,
             TransferLoad>
        replicas;
    std::map<bool, double> norms;  // over all replicas or not
    std::map<std::pair<std::vector<std::int64_t>, std::int64_t>, double> tied;  // stages, elements
  };
  // Degrees, replicas that share experts out, and owners of state; how tensor devices are laid out;
  // place.
  using PricesKey = std::tuple<std::array<std::int64_t, 7>, TensorForm, SharedList<NodeShare>>;

  // Kernels of one sample, in all blocks and in the least layer; and their largest operand, or
  // what the largest of them uses. Of a micro-batch, the least from what comes into a layer to what
  // goes to the next, there and back, and how long before the end of a layer's backward it may go.
  // By block, of a micro-batch there and back: all of it, and from what comes in to what goes on.
  struct SampleSeconds {
    double all = 0, layer = 0;
    Bytes largest = {};
    double through = 0, early = 0;
    std::vector<double> blocks = {}, blocks_through = {};
  };
  using Samples = std::map<std::int64_t, SampleSeconds>;  // by micro-batch
  // In any place. What is known of them stays where it is.
  Samples& samples_of(const PlanChoices& choices) { return samples_[any_place_key(choices)]; }
  static LoweredKey any_place_key(const PlanChoices& choices);
  const SampleSeconds& sample(Samples& known, const PlanChoices& choices, std::int64_t microbatch);
  Seconds of_kernels(Samples& known, const PlanChoices& choices);
  // None: refused.
  std::shared_ptr<const std::vector<BlockTask>> tasks_of(const PlanChoices& choices);
  // Without a place. However experts are shared out.
  const SampleSeconds& plain_sample(const PlanChoices& choices, std::int64_t microbatch);
  SampleSeconds newly_sampled(const PlanChoices& choices, std::int64_t microbatch);
  // What tasks of a block take that are kernels, and the most that one of them uses: wherever the
  // devices stand.
  struct KernelTimes {
    std::vector<std::optional<double>> of_tasks;
    Bytes largest;
  };
  KernelTimes newly_timed(const std::vector<BlockTask>& tasks, std::int64_t samples) const;
  // With this place, and experts shared out in this way.
  const SampleSeconds& divided_sample(const PlanChoices& choices);
  static SampleSeconds lesser(const SampleSeconds& a, const SampleSeconds& b);
  // From what tasks take, as far as it is known.
  SampleSeconds sample_of(const std::vector<BlockTask>& tasks,
                          const std::vector<std::optional<double>>& seconds,
                          std::int64_t microbatch) const;
  Seconds with_sample(const SampleSeconds& seconds, const PlanChoices& choices) const;
  // Of the stages that have most layers the last one, whatever the layers of each.
  double busiest_s(const SampleSeconds& seconds, const PlanChoices& choices) const;
  Seconds staged(const SampleSeconds& seconds, const PlanChoices& choices,
                 std::span<const Staging> ways) const;
  // Of the least of these ways to share layers out.
  double staged_s(const SampleSeconds& seconds, const PlanChoices& choices,
                  std::span<const Staging> ways) const;
  // Of the stage that the last layer is in.
  double last_s(const SampleSeconds& seconds, const PlanChoices& choices) const;
  double kernel_s(const Kernel& kernel) const;  // on the first device
  // Devices that transfer alike, as many of them in each node.
  struct ReplicaGroup {
    std::int64_t members = 1, inside = 1;
    friend auto operator<=>(const ReplicaGroup&, const ReplicaGroup&) = default;
  };
  // Of a transfer of a block in any place, at the least where it takes place.
  double transfer_s(const Transfer& transfer, const PlanChoices& choices,
                    const std::optional<ReplicaGroup>& tensor);
  // Of rows that go to their experts, and of what devices transfer that share products or the
  // sequence out.
  double exchange_s(Transfer transfer, const PlanChoices& choices) const;
  double tensor_s(const Transfer& transfer, const PlanChoices& choices,
                  const std::optional<ReplicaGroup>& group);
  std::optional<ReplicaGroup> tensor_group(const PlanChoices& choices) const;
  double square_s(const Transfer& transfer, const PlanChoices& choices);
  double context_s(Transfer transfer, const PlanChoices& choices) const;
  // Elements of weights: those that all have part of, and those of experts.
  struct WeightElements {
    std::int64_t common = 0, routed = 0;
  };
  // Of these what a device has, where stages have equally much.
  StageHolds share_of(const PlanChoices& choices, const WeightElements& weights) const;
  static std::int64_t repeats_in_node(const PlanChoices& choices);  // replicas, parts of sequences
  // Whether all groups that are as many, as many of them in a node, do so alike.
  bool transfer_alike(const PlanChoices& choices) const;
  bool has_room_for(const ReplicaGroup& group) const;
  std::vector<DeviceId> devices_of(const ReplicaGroup& group) const;  // in the first nodes
  double sum_s(const Transfer& transfer, const ReplicaGroup& group, bool scattered);
  // None: they may not all transfer alike.
  std::optional<ReplicaGroup> replica_group(const PlanChoices& choices, Repeating which) const;
  std::optional<ReplicaGroup> state_group(const PlanChoices& choices, Repeating which) const;
  // Whether all such groups of all stages do.
  bool replicas_alike(const PlanChoices& choices) const {
    constexpr std::array kAll = {Repeating::All, Repeating::Experts, Repeating::Owners,
                                 Repeating::Shares};
    return std::ranges::all_of(
        kAll, [&](Repeating which) { return replica_group(choices, which).has_value(); });
  }
  const TransferLoad& group_price(TransferKind kind, BufferElement element,
                                  const ReplicaGroup& group, std::int64_t elements);
  // Of an element, in transfers of no more than so many.
  TransferLoad group_rate(TransferKind kind, BufferElement element, const ReplicaGroup& group,
                          std::int64_t most);
  // What elements are.
  Plan element_plan(const PlanChoices& choices) const {
    return {.precision = batch_.precision,
            .gradient_precision = choices.gradient_precision.value_or(Precision::FP32)};
  }
  // A way to recompute; and what it drops, by block and op. None: it cannot be said.
  using DroppedOps = std::vector<std::vector<bool>>;
  struct Dropping {
    RecomputeChoice recompute;
    std::optional<DroppedOps> dropped;
  };
  static std::vector<Bytes> kept_of_kinds(const StageWork& work, const BlockBounds& costs,
                                          const DroppedOps& first, const DroppedOps& others,
                                          std::int64_t layers);
  // What a block keeps that recomputes in this way; none: in any.
  Bytes least_kept(const BlockBound& cost, std::size_t block, const RecomputeChoice& way) const;
  // By what is kept alone.
  bool finds_room(const PlanChoices& plain, const StageWork& work,
                  const std::vector<Bytes>& of_kinds) const;
  RecomputeChoice mixed_drops(const PlanChoices& plain, const StageWork& work,
                              const BlockBounds& costs, const Dropping& one,
                              const Dropping& before) const;
  // What dropping costs in the backward of each block, of a chunk's first layers and of its others.
  // Empty: nothing is known to be dropped.
  struct LayerAgain {
    double first_s = 0, other_s = 0;
  };
  std::vector<LayerAgain> again_in_layers(const PlanChoices& choices);
  static std::vector<Dropping> droppings_of(const Model& model,
                                            std::vector<RecomputeChoice> recomputes);
  // Without recomputation.
  const BlockBounds& plain_blocks(const PlanChoices& choices);
  // Of every replica, in a step.
  std::int64_t microbatches_of(const PlanChoices& choices) const {
    return batch_.global_batch / (choices.dp * choices.microbatch);
  }
  // Without a time.
  PlanBound needed_by(const StagePlay& play, const PlanChoices& choices) const;
  Seconds with_steps_between(double step, const PlanChoices& choices) const;
  // The latest are kept: plans that differ in their state are asked about one after the other.
  StageWork& work_of(const PlanChoices& choices);
  std::vector<std::vector<BlockRun>> runs_of(const PlanChoices& choices) const;
  Prices& prices_of(const PlanChoices& choices);
  // Of the first device of the group.
  TransferLoad load_of(const Transfer& transfer) const;
  const TransferLoad& send_price(Prices& prices, const PlanChoices& choices, std::int64_t from,
                                 std::int64_t to, Bytes bytes) const;
  TransferLoad replica_price(Prices& prices, TransferKind kind, const PlanChoices& choices,
                             std::int64_t stage, std::int64_t elements, BufferElement element,
                             Repeating which);
  // Of the sum over stages that have the same weight.
  double tied_price(Prices& prices, const PlanChoices& choices,
                    const std::vector<std::int64_t>& stages, std::int64_t elements) const;
  TransferLoad shared_price(Transfer transfer, std::int64_t elements, BufferElement element) const;
  DeviceId repeating_device(const PlanChoices& choices, std::int64_t stage,
                            std::int64_t member) const;
  // What kernels lose of the time that replicas transfer.
  double replica_loss(const PlanChoices& choices, std::int64_t stage) const;
  // Whether all replicas of a device stand alike, so that they come to everything at once.
  bool has_equal_replicas(const PlanChoices& choices) const;
  double norm_price(Prices& prices, const PlanChoices& choices) const;
  // Of a kernel of the end of the step on so many elements.
  double state_price(KernelKind kind, const PlanChoices& choices, std::int64_t elements);
  // To the host or back.
  std::int64_t sharing_host_link(const PlanChoices& choices) const;
  double least_part_copied(const PlanChoices& choices);
  double copy_price(const PlanChoices& choices, Bytes bytes, Bytes others) const;
  const PipelineItems& items(const PlanChoices& choices);

  const BatchChoice batch_;
  const Setting& setting_;
  const std::optional<Bytes> room_;
  const std::vector<Dropping> droppings_;
  const Model few_;
  const Setting few_setting_;
  WeightElements weights_, layer_weights_;  // trained, of all blocks and of layers
  WeightElements largest_;                  // weight of layers
  std::int64_t layer_count_ = 0;
  double flops_ = 0;  // of matrix products, of a step
  double peak_ = 0;   // of a device, in FLOPs per second
  struct KnownBlocks {
    static constexpr std::size_t kPlanned = 100;  // a hundred take ten megabytes or twenty
    SharedMemo<BlocksKey, std::variant<BlockBounds, Reasons>> blocks;
    LatestMemo<BlocksKey, std::variant<PlannedBlocks, Reasons>> planned{kPlanned};
  };
  std::shared_ptr<KnownBlocks> known_;  // by all threads
  SharedWorks shared_works_;
  static constexpr std::size_t kBlockTasks = 60'000;  // a thousand take half a megabyte
  LatestMemo<LoweredKey, std::vector<BlockTask>> tasks_{kBlockTasks};  // by degrees, in any place
  static constexpr std::size_t kTimes = 400'000;                       // a thousand take 16 kB
  LatestMemo<BlocksKey, KernelTimes> kernel_times_{kTimes};            // in any place
  std::map<BlocksKey, SampleSeconds> divided_;
  std::map<LoweredKey, Samples> samples_, plain_samples_;
  std::map<PricesKey, Prices> prices_;
  std::map<std::tuple<KernelKind, std::optional<Precision>, std::int64_t>, double> state_prices_;
  std::map<std::tuple<TransferKind, BufferElement, ReplicaGroup, std::int64_t>, TransferLoad>
      group_prices_;
  std::map<std::pair<TransferKind, ReplicaGroup>, std::vector<PortShare>> group_ports_;
  const LinkMap links_;
  const bool even_;  // groups of as many devices, as many of them in a node, transfer alike
  std::map<std::tuple<Schedule, std::int64_t, std::int64_t, std::int64_t>, PipelineItems> items_;
  std::size_t item_count_ = 0;                           // of all lists
  std::deque<std::pair<PlanChoices, StageWork>> works_;  // the latest first, by choices of work
};

}  // namespace meshwright
