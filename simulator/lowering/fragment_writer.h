#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "simulator/lowering/routed_rows.h"
#include "simulator/lowering/view.h"

namespace meshwright {

struct Pieces {
  std::int64_t count = 0, size = 0;  // of tokens
};

// What lowering an op writes with: buffers, kernels, and the values and gradients of tensors as
// the op reads and leaves them. Between an op's kernels and what is kept between ops stand the
// steps of the plan, which are written here for every op alike.
class FragmentWriter {
 public:
  FragmentWriter(const PlannedGraph& planned, const Plan& plan, const Placement& placement,
                 const OpRange& range, FragmentEdges edges)
      : planned_(planned),
        plan_(plan),
        placement_(placement),
        shards_(planned, plan, placement),
        range_(range),
        edges_(edges),
        context_axes_(axes_beside(planned.loss_axes(), plan.batch_axes)) {}
  Fragment write();

  const Plan& plan() const { return plan_; }
  const GraphOp& op(std::size_t op) const { return planned_.graph.ops[op]; }
  const OpLayouts& layouts(std::size_t op) const { return planned_.op(op).layouts; }
  const Shards& shards() const { return shards_; }
  const Placement& placement() const { return placement_; }
  Implementation implementation(std::size_t op) const {
    const OpPlan* plan = planned_.op(op).plan;
    return plan ? plan->implementation : Implementation::Local;
  }
  const std::vector<DimId>& dims(TensorId tensor) const {
    return planned_.graph.tensors[tensor.index()].dims;
  }
  const std::vector<DimId>& dims(WeightId weight) const {
    return planned_.graph.weights[weight.index()].dims;
  }
  // As a tensor is kept between ops.
  const Layout& kept(TensorId tensor) const { return planned_.tensors[tensor.index()]; }
  bool rerunning() const { return rerunning_; }

  // Uses the draft up.
  void emit(KernelDraft& call);
  // The same, whatever its part, with what is being written: the forward, or gradients of inputs.
  void emit_now(KernelDraft& call);
  View new_view(const std::string& name, Extents sizes, BufferElement element = BufferElement::Real,
                Component component = Component::Activations);

  // An op's input as the op reads it. In the backward what only gradients of weights need may be
  // moved with these. Nothing keeps what was moved from the forward to the backward.
  View input(std::size_t op, std::size_t input, Phase phase = Phase::InputGradient);
  // Where the op's kernel writes a result, and what is done about it afterwards: nothing, or the
  // plan's steps to what is kept.
  struct Output {
    View computed, kept;
  };
  Output start_output(std::size_t op, std::size_t output = 0);
  // The result again, as the op's kernel computed it, for its backward.
  View output(std::size_t op, std::size_t output = 0);
  void finish_output(std::size_t op, const Output& output);
  // A result that is there already.
  void set_value(TensorId tensor, const View& view);

  // Weights as the op's work cuts them, gathered where they are kept cut more.
  View weight(std::size_t op, std::size_t weight);
  // The same as they are kept.
  View kept_weight(std::size_t op, std::size_t weight);
  View kept_input(std::size_t op, std::size_t input) { return value(op_input(op, input)); }
  const Layout& kept_layout(std::size_t op, std::size_t weight) const {
    return planned_.op(op).weights[weight];
  }
  // What a device keeps of an operand, sent by the one at this place of those that `gather` brings
  // together to all of them. In the backward it may be only gradients of weights that need it.
  View broadcast(const RelayoutStep& gather, const Layout& kept, const View& own, std::size_t place,
                 const std::string& name, Purpose purpose, Phase phase = Phase::InputGradient);
  // Places along the gathered dimension that the one at this place keeps.
  ShardRange range_at(const RelayoutStep& gather, const Layout& kept, std::size_t place) const;
  std::size_t member_count(const RelayoutStep& gather) const {
    return placement_.group(gather.axes).size();
  }
  const RelayoutSteps& steps(std::size_t op, OpRelayouts::BySteps OpRelayouts::*which,
                             std::size_t operand) const {
    return planned_.steps(op, which, operand);
  }

  // Where a kernel writes the gradient of a weight; emit_gradients does the rest.
  View weight_gradient(std::size_t op, std::size_t weight);
  // A kernel that computes the gradients of all of an op's weights. Uses the draft up.
  void emit_gradients(std::size_t op, KernelDraft& call);
  // The rest, where several kernels have written gradients that move.
  void keep_gradients(std::size_t op);
  // Whether the op's weights are trained; check_plan wants all of them or none.
  bool trains(std::size_t op) const;

  // What the forward keeps for the backward beside tensors: with the executor's kernels a view of
  // these sizes for each name, otherwise bytes, if there are any.
  struct Statistic {
    const char* name;
    Extents sizes;
  };
  void keep(std::size_t op, const KeptShape& shape, const std::vector<Statistic>& statistics);
  void set_statistics(std::size_t op, std::vector<View> views);
  const std::vector<View>& statistics(std::size_t op) const;
  // What the op's kernel needs while it runs.
  void add_workspace(std::size_t op, const KeptShape& shape, KernelDraft& call);
  void add_workspace(std::size_t op, Bytes bytes, KernelDraft& call);

  // What a dispatch makes of the device's rows.
  RoutedRows routed_rows(std::size_t dispatch) const {
    return meshwright::routed_rows(planned_, plan_, placement_, dispatch);
  }
  // The dispatch that an op's first input has its rows from.
  std::size_t dispatch_of(std::size_t op) const {
    return *planned_.dispatch[planned_.graph.ops[op].inputs[0].index()];
  }
  // Rows that a dispatch sent to this device, `columns` numbers each; how many is counted.
  View new_rows(const std::string& name, std::size_t dispatch, std::int64_t columns,
                Component component = Component::Activations);
  // How many rows each sender has for each of the device's experts: [senders, experts].
  View expert_counts(std::size_t dispatch) const;
  // Each device along the axes learns what all others have: `own` of each, in `all`.
  void gather_counts(const View& own, const View& all, const std::vector<AxisId>& axes);
  // The largest equal pieces of a sequence of which every device has whole ones.
  Pieces pieces_of(const DimLayout& sequence) const;
  // Each device with a part of a sequence learns a number for every piece: `own` of each, in `all`,
  // the second dimension being the pieces in the sequence's order.
  void gather_pieces(const View& own, const View& all, const DimLayout& sequence,
                     const Pieces& pieces);
  // Rows go to the devices of their experts, or back.
  void exchange_rows(std::size_t dispatch, const View& from, const View& to, bool returns);

  // Combines what each device along these axes has of a view, in place.
  void all_reduce(const View& view, const std::vector<AxisId>& axes,
                  Reduction reduction = Reduction::Sum, Purpose purpose = Purpose::Tensor);
  // What devices with parts of the same sequence tell each other while they compute. What is
  // received comes when computing has come to its place in the list, since it takes memory.
  void send_to(DeviceId device, const View& view);
  void receive_from(DeviceId device, const View& view);
  // What all losses add to, and whether one has already.
  View loss_sum();
  bool has_loss() const { return loss_.has_value(); }
  // Axes of devices that have parts of the same samples: of their tokens, labels and losses.
  const std::vector<AxisId>& context_axes() const { return context_axes_; }

  bool needs_gradient(TensorId tensor) const {
    return planned_.graph.tensors[tensor.index()].needs_gradient;
  }
  // The finished gradient of the op's result, as the op's gradients read it.
  View output_gradient(std::size_t op);
  // Where a kernel writes the gradient of an input, and what is known of it so far, which the
  // kernel adds.
  struct GradientTarget {
    View view;
    std::optional<View> known;
  };
  GradientTarget gradient_target(std::size_t op, std::size_t input);
  void set_gradient(std::size_t op, std::size_t input, const View& view);
  // The same for a kernel that cannot add: add_gradient does.
  View separate_target(std::size_t op, std::size_t input);
  // The same for an input that was repeated along dimensions of the result.
  View repeated_target(std::size_t op, std::size_t input);
  void add_gradient(std::size_t op, std::size_t input, const View& view);
  // The sum along dimensions that `shape` has and `result` repeats.
  void emit_sum(TensorId tensor, const View& from, const std::optional<View>& addend,
                const View& to, const Operand& shape, const Operand& result);
  View new_gradient(TensorId tensor);
  // Between views of the same sizes; what `from` repeats has strides of 0. `adds`: to what is
  // there.
  void emit_copy(const View& from, const View& to, const std::string& name, bool adds = false);

  // Pieces of a split tensor are views of the whole, and so are their gradients.
  View piece_of(const View& whole, std::size_t split, std::size_t piece) const;
  // Makes the gradients of all pieces that of the whole: those that had steps to go are not in
  // their place yet.
  void join_pieces(std::size_t split);

 private:
  // One computation of tensors and of the numbers that gradients need besides.
  struct Version {
    const RecomputeSegment* segment = nullptr;
    std::set<TensorId> kept = {};  // left to the version before
    std::map<TensorId, View> values = {};
    std::map<std::size_t, std::vector<View>> statistics = {};  // by op
  };
  // The gradient of a tensor as far as it has come: what lies as the tensor does, and what still
  // has steps to go. Contributions that go the same way are added first and moved once.
  struct Pending {
    Layout layout;
    RelayoutSteps steps;
    View view;
  };
  struct GradientSum {
    std::optional<View> whole;
    std::vector<Pending> pending;
  };
  // An input as some op reads it.
  struct MovedInput {
    TensorId tensor;
    Layout layout;
    friend auto operator<=>(const MovedInput&, const MovedInput&) = default;
  };
  struct Moved {
    View view;
    std::size_t first_task = 0, end_task = 0;  // that moved it
  };

  const OpGraph& graph() const { return planned_.graph; }
  TensorId op_input(std::size_t op, std::size_t input) const {
    return graph().ops[op].inputs[input];
  }
  // Tensors of this fragment that ops outside read, each with each of those chunks.
  std::set<Message> find_crossings() const;
  void forward(std::size_t op);
  void backward(std::size_t op);
  // Weights that are gathered for a product come while the product before it in the layer is
  // computed, and not before that: what is gathered takes memory.
  void place_gathers(std::vector<FragmentTask>& tasks) const;

  FragmentBufferId add_buffer(FragmentBuffer buffer);
  View weight_view(const WeightOfOp& weight, const Layout& layout);
  // Whether gradients of an op's weights are computed otherwise than they are kept. A kernel adds
  // to all it writes or to nothing: then none of them are written where they are kept.
  bool moves_gradients(std::size_t op) const;
  void keep_gradient(std::size_t op, std::size_t weight, View view);
  void add_scattered();
  View new_output(TensorId tensor);
  // In the layout that a tensor is kept in.
  View new_tensor(const std::string& name, TensorId tensor, BufferElement element);
  // Marks what of the kernel's operands are rows that are counted, and adds their counts.
  void count_rows(KernelDraft& call) const;
  void add_task(FragmentTask task);
  FragmentTask transfer_task(Transfer transfer, const View& from, const View& to) const;
  void send(const View& view, const Message& message);
  void receive(const View& view, const Message& message);
  // A tensor that some op of the fragment reads: computed here, received, or loaded.
  const View& value(TensorId tensor);

  // One step of a relayout, from a view in the layout `before` to one in the layout after it.
  void emit_step(const RelayoutStep& step, const Layout& before, const View& from, const View& to,
                 const std::string& name, Purpose purpose);
  void emit_slice(const Cut& cut, const View& from, const View& to, const std::string& name);
  Cut cut_of(const Layout& coarse, const Layout& fine, DimId dim,
             const std::vector<DeviceId>& group) const;
  // Steps from a view to `end`; whatever lies between is there only for that.
  void emit_steps(const RelayoutSteps& steps, Layout layout, View view, const View& end,
                  const std::string& name, Purpose purpose = Purpose::Tensor);
  static std::vector<AxisId> axes_beside(std::vector<AxisId> axes,
                                         const std::vector<AxisId>& others);
  // Of what is moved for computing.
  Purpose purpose_along(const std::vector<AxisId>& axes, Purpose purpose) const;
  static bool is_in_place(const RelayoutStep& step) { return step.kind == RelayoutKind::AllReduce; }
  static bool are_in_place(const RelayoutSteps& steps) {
    return std::ranges::all_of(steps, is_in_place);
  }
  Phase phase() const {
    return tasks_ == &fragment_.forward ? Phase::Forward : Phase::InputGradient;
  }

  // Opens the segments around an op whose gradients come next and closes those that are done.
  void open_segments(std::size_t op);
  void rerun(const RecomputeSegment& segment);

  void receive_gradient(const Message& message);
  // The finished gradient as it is kept: everything that adds to it has been computed.
  View gradient(TensorId tensor);
  // A piece of a split tensor writes into the whole's gradient.
  View whole_target(TensorId tensor);
  bool is_piece(TensorId tensor) const;
  void add_whole(TensorId tensor, const View& view);
  Pending* find_pending(std::size_t op, std::size_t input);

  const PlannedGraph& planned_;
  const Plan& plan_;
  const Placement& placement_;
  const Shards shards_;
  const OpRange range_;
  const FragmentEdges edges_;
  const std::vector<AxisId> context_axes_;

  Fragment fragment_;
  std::vector<FragmentTask>* tasks_ = nullptr;  // the list being written
  std::map<WeightOfOp, FragmentBufferId> weights_;
  std::map<std::size_t, View> computed_gradients_;  // of the op at hand, by weight: those that move
  std::vector<FragmentTask> scattered_;             // sums of those that have moved
  std::optional<FragmentBufferId> loss_;
  // What the forward computed, then what each open segment computed again, from outer to inner.
  std::vector<Version> versions_;
  bool rerunning_ = false;
  std::size_t op_ = 0;                 // whose forward or gradients are being written
  std::map<MovedInput, Moved> moved_;  // of the newest version
  std::map<TensorId, GradientSum> gradients_;
  std::map<std::size_t, View> pieces_;  // by split: the gradient that its pieces are views of
  std::set<Message> received_;
  std::map<FragmentBufferId, std::size_t> counted_;  // buffers of rows, by their dispatch
};

}  // namespace meshwright
