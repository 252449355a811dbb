#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "simulator/lowering/view.h"

namespace meshwright {

// Writes the fragment of one chunk: op by op forward, then backward. Forward and backward are in
// files of their own.
class ChunkLowering {
 public:
  ChunkLowering(const Program& program, const PlannedGraph& planned, const Plan& plan,
                const Placement& placement, const OpSharding& sharding,
                const WeightBuckets& weights, std::size_t chunk)
      : program_(program),
        planned_(planned),
        graph_(planned.graph),
        plan_(plan),
        placement_(placement),
        sharding_(sharding),
        weights_(weights),
        chunk_(plan.chunks[chunk]) {}
  Fragment lower();

 private:
  // One computation of tensors and of the numbers that gradients need besides.
  struct Version {
    const RecomputeSegment* segment = nullptr;
    std::set<TensorId> kept = {};  // left to the version before
    std::map<TensorId, View> values = {};
    std::map<std::size_t, std::vector<View>> statistics = {};  // by op
  };

  bool in_chunk(std::size_t op) const { return op >= chunk_.first_op && op < chunk_.end_op; }
  // Tensors of this chunk that other chunks read, each with each of those chunks.
  std::set<Message> find_crossings() const;

  // Buffers and tasks.

  FragmentBufferId add_buffer(std::string name, std::int64_t count, BufferElement element,
                              Component component = Component::Activations);
  FragmentBufferId persistent(BufferId id);
  FragmentBufferId whole_bucket(std::size_t bucket, Component component);
  View new_view(const std::string& name, std::vector<std::int64_t> sizes,
                BufferElement element = BufferElement::Real,
                Component component = Component::Activations);
  View new_output(TensorId tensor);
  void emit(KernelDraft& call);
  void add_task(FragmentTask task);
  void emit_transfer(const View& view, TransferKind kind, Purpose purpose,
                     std::vector<DeviceId> group, Reduction reduction = Reduction::Sum);
  // Sums what each device along the split axes has of a view.
  void all_reduce(const View& view, Reduction reduction = Reduction::Sum);
  // From parts of the sequence to all of it, and back with a sum over devices. `tensor` has the
  // dimensions.
  void all_gather(TensorId tensor, const View& part, const View& whole);
  void reduce_scatter(TensorId tensor, const View& whole, const View& part);
  // One of these two between a part and the whole.
  void move_parts(TransferKind kind, TensorId tensor, const View& from, const View& to);
  void send(const View& view, const Message& message);
  void receive(const View& view, const Message& message);

  // Values.

  // Of a tensor that an op reads: computed here, received, or loaded.
  const View& value(TensorId tensor);
  const std::vector<View>& statistics(std::size_t op) const;
  // Of the op's first input, as the op reads it: gathered where that is needed. Nothing keeps what
  // was gathered from the forward to the backward.
  View gathered_input(std::size_t op);
  // Where the op writes its result, which is a sum over devices: the result itself, or what is
  // scattered into it.
  View partial_output(std::size_t op, const View& result);
  void sum_output(std::size_t op, const View& partial, const View& result);
  View weight(std::size_t op, WeightId id);
  View weight_gradient(std::size_t op, WeightId id);
  // A matmul's weight as [in, out], whichever way it is stored.
  Operand weight_matrix(std::size_t op, const View& view) const;
  std::size_t contracted(std::size_t op) const;
  // Whether the op's result is a sum over devices: it splits a dimension it sums over.
  bool gives_partial(std::size_t op) const;
  // Whether the gradient of its input is: it splits a dimension that the input does not have.
  bool gives_partial_gradient(std::size_t op) const;

  // Recomputation.

  // Opens the segments around an op whose gradients come next and closes those that are done.
  void open_segments(std::size_t op);
  void rerun(const RecomputeSegment& segment);

  // Forward.

  void forward(std::size_t op);
  View set_output(std::size_t op);
  void set_value(TensorId tensor, const View& view);
  void forward_embedding(std::size_t op);
  std::size_t table_columns(std::size_t op) const;
  std::int64_t first_row(std::size_t op) const;
  void forward_matmul(std::size_t op);
  // After the sum over devices, or it would be counted once for each of them. In place.
  void add_bias(std::size_t op, const View& y, const Operand& shape);
  void forward_norm(std::size_t op);
  static KernelKind norm_kernel(const GraphOp& op);
  std::size_t norm_columns(std::size_t op) const;
  // What the forward keeps for the backward beside tensors: with the executor's kernels a view of
  // these sizes for each name, otherwise bytes, if there are any.
  struct Statistic {
    const char* name;
    std::vector<std::int64_t> sizes;
  };
  void keep(std::size_t op, const KeptShape& shape, const std::vector<Statistic>& statistics);
  // What the op's kernel needs while it runs.
  void add_workspace(std::size_t op, const KeptShape& shape, KernelDraft& call);
  void add_workspace(std::size_t op, Bytes bytes, KernelDraft& call);
  KeptShape attention_shape(std::size_t op);
  void forward_attention(std::size_t op);
  // Batch, heads, queries, keys.
  std::vector<GlobalExtent> attention_place(std::size_t op) const;
  void forward_elementwise(std::size_t op);
  KernelDraft elementwise_call(std::size_t op, KernelPart part) const;
  // An operand that lacks dimensions of the result is repeated along them.
  Operand broadcast(TensorId from, TensorId to);
  void forward_add(std::size_t op);
  // Pieces are views of the whole.
  View piece_of(const View& whole, std::size_t op, std::size_t piece) const;
  void forward_split(std::size_t op);
  bool splits_vocabulary(std::size_t op) const;
  std::int64_t first_class(std::size_t op) const;
  void forward_loss(std::size_t op);

  // Backward.

  bool needs_gradient(TensorId tensor) const;
  void receive_gradient(const Message& message);
  void send_gradient(const Message& message);
  View new_gradient(TensorId tensor);
  // Where a kernel writes the gradient of a tensor. A piece of a split tensor writes into the
  // whole's gradient, so the split itself has nothing to do.
  View gradient_target(TensorId tensor);
  // The gradient of an input that was gathered for the op: whole, but a part of the sum.
  View gathered_target(std::size_t op);
  // The same for a kernel that cannot add to what is known: add_whole does.
  View separate_target(TensorId tensor);
  // A gradient that is there without a kernel: taken as it is, or added to what there is.
  void add_whole(TensorId tensor, const View& view);
  void emit_sum(TensorId tensor, const View& from, const std::optional<View>& addend,
                const View& to, const Operand& shape, const Operand& result);
  // The finished gradient: everything that adds to it has been computed.
  View gradient(TensorId tensor);
  // That of an op's result as the op works on it.
  View output_gradient(std::size_t op);
  void backward(std::size_t op);
  // Whether the op's weights are trained; check_plan wants all of them or none.
  bool trains(std::size_t op) const;
  void emit_weight_gradient(std::size_t op, KernelDraft& call);
  void backward_embedding(std::size_t op);
  void backward_matmul(std::size_t op);
  void backward_norm(std::size_t op);
  void backward_attention(std::size_t op);
  void backward_elementwise(std::size_t op);
  void backward_gated(std::size_t op);
  // An operand of the result's shape has the result's gradient; one that was repeated has the sum.
  void backward_add(std::size_t op);
  void backward_loss(std::size_t op);

  const Program& program_;
  const PlannedGraph& planned_;
  const OpGraph& graph_;
  const Plan& plan_;
  const Placement& placement_;
  const OpSharding& sharding_;
  const WeightBuckets& weights_;
  const Chunk& chunk_;

  Fragment fragment_;
  std::vector<FragmentTask>* tasks_ = nullptr;  // the list being written
  std::map<BufferId, FragmentBufferId> persistent_;
  std::map<WholeBucket, FragmentBufferId> whole_;
  // What the forward computed, then what each open segment computed again, from outer to inner.
  std::vector<Version> versions_;
  bool rerunning_ = false;
  std::size_t op_ = 0;                 // whose forward or gradients are being written
  std::map<TensorId, View> gathered_;  // of the newest version
  std::map<TensorId, GradientSum> gradients_;
  std::set<Message> received_;
};

}  // namespace meshwright
