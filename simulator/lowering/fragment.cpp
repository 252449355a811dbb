#include "simulator/lowering/fragment.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>

#include "costmodel/checked.h"

namespace meshwright {
namespace {

// Where the value of a tensor is: an operand with one size per dimension.
struct View {
  FragmentBufferId buffer;
  Operand operand;
};

// The gradient of a tensor as far as it has come. A partial one still has to be summed over the
// devices that split the work.
struct GradientSum {
  std::optional<View> whole, partial;
};

std::int64_t product_of(const std::vector<std::int64_t>& sizes) {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) product = checked_multiply(product, size);
  return product;
}

Operand written(Operand operand) {
  operand.written = true;
  return operand;
}

// The same elements with the last `columns` dimensions as one, and the others as another.
Operand as_matrix(const Operand& operand, std::size_t columns) {
  const auto split = operand.sizes.end() - static_cast<std::ptrdiff_t>(columns);
  Operand matrix = dense_operand(
      {product_of({operand.sizes.begin(), split}), product_of({split, operand.sizes.end()})},
      operand.element, operand.offset);
  assert(operand.strides == dense_operand(operand.sizes).strides);
  return matrix;
}

Operand as_row(const Operand& operand) {
  return dense_operand({product_of(operand.sizes)}, operand.element, operand.offset);
}

// [batch, sequence, heads.., size] with all heads as one dimension.
Operand as_heads(const Operand& operand) {
  Operand heads = operand;
  while (heads.sizes.size() > 4) {
    assert(heads.strides[2] == heads.sizes[3] * heads.strides[3]);
    heads.sizes[2] *= heads.sizes[3];
    heads.strides[2] = heads.strides[3];
    heads.sizes.erase(heads.sizes.begin() + 3);
    heads.strides.erase(heads.strides.begin() + 3);
  }
  return heads;
}

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

  Fragment lower() {
    tasks_ = &fragment_.forward;
    for (std::size_t op = chunk_.first_op; op < chunk_.end_op; ++op) forward(op);
    for_crossings([&](TensorId tensor, std::size_t slot) { send(values_.at(tensor), slot); });
    tasks_ = &fragment_.backward;
    for_crossings([&](TensorId tensor, std::size_t slot) { receive_gradient(tensor, slot); });
    for (std::size_t op = chunk_.end_op; op-- > chunk_.first_op;) backward(op);
    for (const TensorId tensor : received_) send_gradient(tensor);
    return std::move(fragment_);
  }

 private:
  bool in_chunk(std::size_t op) const { return op >= chunk_.first_op && op < chunk_.end_op; }

  std::size_t slot_of(std::size_t op) const {
    for (const Chunk& chunk : plan_.chunks) {
      if (op >= chunk.first_op && op < chunk.end_op) return chunk.slot;
    }
    assert(!"an op of a chunk");
    return 0;
  }

  // Tensors of this chunk that later slots read, each with each of those slots.
  template <class Function>
  void for_crossings(const Function& function) const {
    for (std::size_t op = chunk_.first_op; op < chunk_.end_op; ++op) {
      for (const TensorId tensor : graph_.ops[op].outputs) {
        std::set<std::size_t> slots;
        for (const std::size_t reader : planned_.readers[tensor.index()]) {
          if (!in_chunk(reader)) slots.insert(slot_of(reader));
        }
        for (const std::size_t slot : slots) function(tensor, slot);
      }
    }
  }

  // Buffers and tasks.

  FragmentBufferId add_buffer(std::string name, std::int64_t count, BufferElement element,
                              Component component = Component::Activations) {
    fragment_.buffers.push_back(
        {{.name = std::move(name), .count = count, .element = element, .component = component},
         std::nullopt});
    return FragmentBufferId(fragment_.buffers.size() - 1);
  }

  FragmentBufferId persistent(BufferId id) {
    const auto [entry, added] =
        persistent_.try_emplace(id, FragmentBufferId(fragment_.buffers.size()));
    if (added) fragment_.buffers.push_back({program_.buffers[id.index()], id});
    return entry->second;
  }

  View new_view(const std::string& name, std::vector<std::int64_t> sizes,
                BufferElement element = BufferElement::Real,
                Component component = Component::Activations) {
    const std::int64_t count = product_of(sizes);
    return {add_buffer(name, count, element, component), dense_operand(std::move(sizes), element)};
  }

  View new_output(TensorId tensor) {
    const Tensor& entry = graph_.tensors[tensor.index()];
    return new_view(entry.name, sharding_.sizes(tensor),
                    entry.element == Element::Index ? BufferElement::Index : BufferElement::Real);
  }

  // A kernel with its operands and their buffers.
  class Call {
   public:
    Call(KernelKind kind, KernelPart part, const GraphOp& op) {
      task_.kernel.kind = kind;
      task_.kernel.part = task_.part = part;
      task_.kernel.attributes = op.attributes;
      task_.kernel.name = op.name;
    }
    Call& read(const View& view, Operand operand) {
      task_.operands.push_back(view.buffer);
      task_.kernel.operands.push_back(std::move(operand));
      return *this;
    }
    Call& read(const View& view) { return read(view, view.operand); }
    Call& write(const View& view, Operand operand) {
      return read(view, written(std::move(operand)));
    }
    Call& write(const View& view) { return write(view, view.operand); }
    // What is known of the result, in the result's shape.
    Call& addend(const std::optional<View>& known, const Operand& result) {
      if (!known) return *this;
      Operand operand = result;
      operand.offset = known->operand.offset;
      operand.written = false;
      task_.kernel.has_addend = true;
      return read(*known, std::move(operand));
    }
    FragmentTask& task() { return task_; }
    Kernel& kernel() { return task_.kernel; }

   private:
    FragmentTask task_;
  };

  void emit(Call& call) { tasks_->push_back(std::move(call.task())); }

  void emit_transfer(const View& view, TransferKind kind, Purpose purpose,
                     std::vector<DeviceId> group, Reduction reduction = Reduction::Sum) {
    FragmentTask task{.kind = TaskKind::Transfer};
    task.transfer = {.kind = kind,
                     .reduction = reduction,
                     .purpose = purpose,
                     .group = std::move(group),
                     .offset = view.operand.offset,
                     .count = element_count(view.operand),
                     .element = view.operand.element};
    task.operands = {view.buffer};
    task.part = tasks_ == &fragment_.forward ? KernelPart::Forward : KernelPart::InputGradient;
    tasks_->push_back(std::move(task));
  }

  // Sums what each device along the split axes has of a view.
  void all_reduce(const View& view, Reduction reduction = Reduction::Sum) {
    emit_transfer(view, TransferKind::AllReduce, Purpose::Tensor, placement_.group("tp"),
                  reduction);
  }

  void send(const View& view, std::size_t slot) {
    emit_transfer(view, TransferKind::Send, Purpose::Pipeline,
                  {placement_.device(), placement_.peer(slot)});
  }

  void receive(const View& view, std::size_t slot) {
    emit_transfer(view, TransferKind::Receive, Purpose::Pipeline,
                  {placement_.peer(slot), placement_.device()});
  }

  // Values.

  // Of a tensor that an op reads: computed here, received, or loaded.
  const View& value(TensorId tensor) {
    if (const auto found = values_.find(tensor); found != values_.end()) return found->second;
    const View view = new_output(tensor);
    const std::size_t producer = planned_.producer[tensor.index()];
    if (producer < graph_.ops.size()) {
      receive(view, slot_of(producer));
      received_.push_back(tensor);
    } else {
      Call load(KernelKind::Load, KernelPart::Forward, GraphOp{});
      load.kernel().name = graph_.tensors[tensor.index()].name;
      emit(load.write(view));
    }
    return values_.emplace(tensor, view).first->second;
  }

  View weight(std::size_t op, WeightId id) {
    const WeightShard& shard = program_.weights[weights_.use(op, id).shard];
    return {persistent(shard.weight),
            dense_operand(shard.sizes, BufferElement::Real, shard.offset)};
  }

  View weight_gradient(std::size_t op, WeightId id) {
    const WeightUsed& use = weights_.use(op, id);
    const WeightShard& shard = program_.weights[use.shard];
    if (use.own_gradient) return {persistent(*use.own_gradient), dense_operand(shard.sizes)};
    return {persistent(shard.gradient),
            dense_operand(shard.sizes, BufferElement::Real, shard.offset)};
  }

  // A matmul's weight as [in, out], whichever way it is stored.
  Operand weight_matrix(std::size_t op, const View& view) const {
    const GraphOp& entry = graph_.ops[op];
    const auto& dims = graph_.weights[entry.weights[0].index()].dims;
    const auto& result = graph_.tensors[entry.outputs[0].index()].dims;
    const auto is_in = [&](DimId dim) {
      return std::find(result.begin(), result.end(), dim) == result.end();
    };
    const auto ins = static_cast<std::size_t>(std::count_if(dims.begin(), dims.end(), is_in));
    if (is_in(dims.front())) return as_matrix(view.operand, dims.size() - ins);
    const Operand stored = as_matrix(view.operand, ins);  // [out, in]
    return {.offset = stored.offset,
            .sizes = {stored.sizes[1], stored.sizes[0]},
            .strides = {1, stored.sizes[1]},
            .element = stored.element};
  }

  std::size_t contracted(std::size_t op) const {
    const GraphOp& entry = graph_.ops[op];
    const auto& x = graph_.tensors[entry.inputs[0].index()].dims;
    const auto& y = graph_.tensors[entry.outputs[0].index()].dims;
    return static_cast<std::size_t>(std::count_if(x.begin(), x.end(), [&](DimId dim) {
      return std::find(y.begin(), y.end(), dim) == y.end();
    }));
  }

  // Whether the op's result is a sum over devices: it splits a dimension it sums over.
  bool gives_partial(std::size_t op) const {
    const GraphOp& entry = graph_.ops[op];
    const auto& y = graph_.tensors[entry.outputs[0].index()].dims;
    const auto& w = graph_.weights[entry.weights[0].index()].dims;
    return std::any_of(w.begin(), w.end(), [&](DimId dim) {
      return std::find(y.begin(), y.end(), dim) == y.end() && sharding_.is_split(op, dim);
    });
  }

  // Whether the gradient of its input is: it splits a dimension that the input does not have.
  bool gives_partial_gradient(std::size_t op) const {
    const GraphOp& entry = graph_.ops[op];
    const auto& x = graph_.tensors[entry.inputs[0].index()].dims;
    const auto& w = graph_.weights[entry.weights[0].index()].dims;
    return std::any_of(w.begin(), w.end(), [&](DimId dim) {
      return std::find(x.begin(), x.end(), dim) == x.end() && sharding_.is_split(op, dim);
    });
  }

  // Forward.

  void forward(std::size_t op) {
    const GraphOp& entry = graph_.ops[op];
    for (const TensorId input : entry.inputs) value(input);
    switch (entry.kind) {
      case OpKind::Embedding:
        return forward_embedding(op);
      case OpKind::Matmul:
        return forward_matmul(op);
      case OpKind::LayerNorm:
        return forward_norm(op);
      case OpKind::Attention:
        return forward_attention(op);
      case OpKind::Activation:
      case OpKind::Dropout:
        return forward_elementwise(op);
      case OpKind::Add:
        return forward_add(op);
      case OpKind::Split:
        return forward_split(op);
      case OpKind::CrossEntropy:
        return forward_loss(op);
      default:
        assert(!"check_plan refuses other kinds");
    }
  }

  View& set_output(std::size_t op) {
    const TensorId tensor = graph_.ops[op].outputs[0];
    return values_.emplace(tensor, new_output(tensor)).first->second;
  }

  void forward_embedding(std::size_t op) {
    const GraphOp& entry = graph_.ops[op];
    const View table = weight(op, entry.weights[0]);
    const View y = set_output(op);
    const View& index = value(entry.inputs[0]);
    Call call(KernelKind::Embedding, KernelPart::Forward, entry);
    call.kernel().first_row = first_row(op);
    call.read(index, as_row(index.operand))
        .read(table, as_matrix(table.operand, table_columns(op)));
    emit(call.write(y, as_matrix(y.operand, table_columns(op))));
    if (gives_partial(op)) all_reduce(y);
  }

  std::size_t table_columns(std::size_t op) const {
    return graph_.weights[graph_.ops[op].weights[0].index()].dims.size() - 1;
  }

  std::int64_t first_row(std::size_t op) const {
    return sharding_.share(op, graph_.weights[graph_.ops[op].weights[0].index()].dims[0]).start;
  }

  void forward_matmul(std::size_t op) {
    const GraphOp& entry = graph_.ops[op];
    const View matrix = weight(op, entry.weights[0]);
    const View y = set_output(op);
    const View& x = value(entry.inputs[0]);
    const Operand shape = weight_matrix(op, matrix);
    const Operand result =
        dense_operand({element_count(y.operand) / shape.sizes[1], shape.sizes[1]});
    const bool partial = gives_partial(op);
    Call call(KernelKind::Matmul, KernelPart::Forward, entry);
    call.read(x, as_matrix(x.operand, contracted(op))).read(matrix, shape);
    if (entry.weights.size() == 2 && !partial) {
      const View bias = weight(op, entry.weights[1]);
      call.read(bias, as_row(bias.operand));
    }
    emit(call.write(y, result));
    if (!partial) return;
    all_reduce(y);
    if (entry.weights.size() == 2) add_bias(op, y, result);
  }

  // After the sum over devices, or it would be counted once for each of them. In place.
  void add_bias(std::size_t op, const View& y, const Operand& shape) {
    const View bias = weight(op, graph_.ops[op].weights[1]);
    Operand row = as_row(bias.operand);
    row.sizes = shape.sizes;
    row.strides = {0, 1};
    Call call(KernelKind::Add, KernelPart::Forward, graph_.ops[op]);
    emit(call.read(y, shape).read(bias, row).write(y, shape));
  }

  void forward_norm(std::size_t op) {
    const GraphOp& entry = graph_.ops[op];
    const View y = set_output(op);
    const View& x = value(entry.inputs[0]);
    const std::size_t columns = norm_columns(op);
    const Operand shape = as_matrix(x.operand, columns);
    const View mean = statistic(op, "mean", shape.sizes[0]);
    const View scale = statistic(op, "scale", shape.sizes[0]);
    Call call(KernelKind::LayerNorm, KernelPart::Forward, entry);
    call.read(x, shape);
    for (const WeightId id : entry.weights) {
      const View w = weight(op, id);
      call.read(w, as_row(w.operand));
    }
    emit(call.write(y, shape).write(mean).write(scale));
  }

  std::size_t norm_columns(std::size_t op) const {
    return graph_.weights[graph_.ops[op].weights[0].index()].dims.size();
  }

  // A number a row that the forward keeps for the backward.
  View statistic(std::size_t op, const char* name, std::int64_t rows) {
    const View view = new_view(graph_.ops[op].name + "." + name, {rows});
    statistics_[op].push_back(view);
    return view;
  }

  void forward_attention(std::size_t op) {
    const GraphOp& entry = graph_.ops[op];
    const View y = set_output(op);
    const Operand result = as_heads(y.operand);
    const View lse =
        new_view(entry.name + ".lse", {result.sizes[0], result.sizes[2], result.sizes[1]});
    statistics_[op].push_back(lse);
    Call call(KernelKind::Attention, KernelPart::Forward, entry);
    call.kernel().place = attention_place(op);
    for (std::size_t i = 0; i < 3; ++i) {
      const View& x = value(entry.inputs[i]);
      call.read(x, as_heads(x.operand));
    }
    emit(call.write(y, result).write(lse));
  }

  // Batch, heads, queries, keys.
  std::vector<GlobalExtent> attention_place(std::size_t op) const {
    const GraphOp& entry = graph_.ops[op];
    const auto q = sharding_.place(entry.inputs[0]);
    const auto k = sharding_.place(entry.inputs[1]);
    GlobalExtent heads = q[2];
    for (std::size_t i = 3; i + 1 < q.size(); ++i) {
      heads = {heads.start * q[i].size + q[i].start, heads.size * q[i].size};
    }
    return {q[0], heads, q[1], k[1]};
  }

  void forward_elementwise(std::size_t op) {
    const GraphOp& entry = graph_.ops[op];
    const View y = set_output(op);
    const View& x = value(entry.inputs[0]);
    Call call = elementwise_call(op, KernelPart::Forward);
    emit(call.read(x).write(y));
  }

  Call elementwise_call(std::size_t op, KernelPart part) const {
    const GraphOp& entry = graph_.ops[op];
    const bool drops = entry.kind == OpKind::Dropout;
    Call call(drops ? KernelKind::Dropout : KernelKind::Activation, part, entry);
    if (drops) call.kernel().place = sharding_.place(entry.inputs[0]);
    return call;
  }

  // An operand that lacks dimensions of the result is repeated along them.
  Operand broadcast(TensorId from, TensorId to) {
    const auto& have = graph_.tensors[from.index()].dims;
    const auto& want = graph_.tensors[to.index()].dims;
    const Operand own = dense_operand(sharding_.sizes(from));
    Operand result = dense_operand(sharding_.sizes(to));
    for (std::size_t i = 0; i < want.size(); ++i) {
      const auto found = std::find(have.begin(), have.end(), want[i]);
      result.strides[i] =
          found == have.end() ? 0 : own.strides[static_cast<std::size_t>(found - have.begin())];
    }
    return result;
  }

  void forward_add(std::size_t op) {
    const GraphOp& entry = graph_.ops[op];
    const View y = set_output(op);
    Call call(KernelKind::Add, KernelPart::Forward, entry);
    for (const TensorId input : entry.inputs) {
      call.read(value(input), broadcast(input, entry.outputs[0]));
    }
    emit(call.write(y));
  }

  // Pieces are views of the whole.
  View piece_of(const View& whole, std::size_t op, std::size_t piece) const {
    const GraphOp& entry = graph_.ops[op];
    const DimId axis = std::get<AxisAttributes>(entry.attributes).dim;
    const auto& dims = graph_.tensors[entry.inputs[0].index()].dims;
    const auto at =
        static_cast<std::size_t>(std::find(dims.begin(), dims.end(), axis) - dims.begin());
    const auto length = [&](std::size_t i) -> std::int64_t {
      const auto& own = graph_.tensors[entry.outputs[i].index()].dims;
      return own.size() < dims.size() ? 1 : graph_.dims[own[at].index()].size;
    };
    View view = whole;
    for (std::size_t i = 0; i < piece; ++i) {
      view.operand.offset += length(i) * whole.operand.strides[at];
    }
    const auto position = static_cast<std::ptrdiff_t>(at);
    if (graph_.tensors[entry.outputs[piece].index()].dims.size() < dims.size()) {
      view.operand.sizes.erase(view.operand.sizes.begin() + position);
      view.operand.strides.erase(view.operand.strides.begin() + position);
    } else {
      view.operand.sizes[at] = length(piece);
    }
    return view;
  }

  void forward_split(std::size_t op) {
    const GraphOp& entry = graph_.ops[op];
    for (std::size_t i = 0; i < entry.outputs.size(); ++i) {
      values_.emplace(entry.outputs[i], piece_of(value(entry.inputs[0]), op, i));
    }
  }

  bool splits_vocabulary(std::size_t op) const {
    return sharding_.is_split(op, graph_.tensors[graph_.ops[op].inputs[0].index()].dims.back());
  }

  std::int64_t first_class(std::size_t op) const {
    return sharding_.share(op, graph_.tensors[graph_.ops[op].inputs[0].index()].dims.back()).start;
  }

  void forward_loss(std::size_t op) {
    const GraphOp& entry = graph_.ops[op];
    const View& logits = value(entry.inputs[0]);
    const View& labels = value(entry.inputs[1]);
    const Operand shape = as_matrix(logits.operand, 1);
    const Operand rows = as_row(labels.operand);
    const View largest = statistic(op, "largest", shape.sizes[0]);
    const View sums = new_view(entry.name + ".sums", {shape.sizes[0], 2});
    statistics_[op].push_back(sums);

    Call most(KernelKind::LossLargest, KernelPart::Forward, entry);
    emit(most.read(logits, shape).write(largest));
    if (splits_vocabulary(op)) all_reduce(largest, Reduction::Max);
    Call add(KernelKind::LossSums, KernelPart::Forward, entry);
    add.kernel().first_row = first_class(op);
    emit(add.read(logits, shape).read(labels, rows).read(largest).write(sums));
    if (splits_vocabulary(op)) all_reduce(sums);
    const View loss{persistent(*program_.loss), dense_operand({1}, BufferElement::Double)};
    Call mean(KernelKind::Loss, KernelPart::Forward, entry);
    emit(mean.read(labels, rows).read(largest).read(sums).write(loss));
  }

  // Backward.

  bool needs_gradient(TensorId tensor) const {
    return graph_.tensors[tensor.index()].needs_gradient;
  }

  void receive_gradient(TensorId tensor, std::size_t slot) {
    if (!needs_gradient(tensor)) return;
    const View view = new_gradient(tensor);
    receive(view, slot);
    add_whole(tensor, view);
  }

  void send_gradient(TensorId tensor) {
    if (!needs_gradient(tensor)) return;
    send(gradient(tensor), slot_of(planned_.producer[tensor.index()]));
  }

  View new_gradient(TensorId tensor) {
    return new_view("d " + graph_.tensors[tensor.index()].name, sharding_.sizes(tensor));
  }

  // Where a kernel writes the gradient of a tensor. A piece of a split tensor writes into the
  // whole's gradient, so the split itself has nothing to do.
  View gradient_target(TensorId tensor) {
    const std::size_t producer = planned_.producer[tensor.index()];
    if (producer >= graph_.ops.size() || !in_chunk(producer) ||
        graph_.ops[producer].kind != OpKind::Split) {
      return new_gradient(tensor);
    }
    const GraphOp& split = graph_.ops[producer];
    GradientSum& sum = gradients_[split.inputs[0]];
    if (!sum.whole) sum.whole = new_gradient(split.inputs[0]);
    const auto found = std::find(split.outputs.begin(), split.outputs.end(), tensor);
    return piece_of(*sum.whole, producer, static_cast<std::size_t>(found - split.outputs.begin()));
  }

  // A gradient that is there without a kernel: taken as it is, or added to what there is.
  void add_whole(TensorId tensor, const View& view) {
    GradientSum& sum = gradients_[tensor];
    if (!sum.whole) {
      sum.whole = view;
      return;
    }
    const View both = new_gradient(tensor);
    emit_sum(tensor, view, sum.whole, both, view.operand, both.operand);
    gradients_[tensor].whole = both;
  }

  void emit_sum(TensorId tensor, const View& from, const std::optional<View>& addend,
                const View& to, const Operand& shape, const Operand& result) {
    GraphOp name;
    name.name = graph_.tensors[tensor.index()].name;
    Call call(KernelKind::Sum, KernelPart::InputGradient, name);
    call.read(from, shape);
    emit(call.addend(addend, result).write(to, result));
  }

  // The finished gradient: everything that adds to it has been computed.
  View gradient(TensorId tensor) {
    GradientSum& sum = gradients_[tensor];
    if (sum.partial) {
      all_reduce(*sum.partial);
      const View reduced = *sum.partial;
      sum.partial.reset();
      add_whole(tensor, reduced);
    }
    assert(gradients_[tensor].whole);
    return *gradients_[tensor].whole;
  }

  void backward(std::size_t op) {
    const GraphOp& entry = graph_.ops[op];
    switch (entry.kind) {
      case OpKind::Embedding:
        return backward_embedding(op);
      case OpKind::Matmul:
        return backward_matmul(op);
      case OpKind::LayerNorm:
        return backward_norm(op);
      case OpKind::Attention:
        return backward_attention(op);
      case OpKind::Activation:
      case OpKind::Dropout:
        return backward_elementwise(op);
      case OpKind::Add:
        return backward_add(op);
      case OpKind::CrossEntropy:
        return backward_loss(op);
      default:  // a split has nothing to do
        return;
    }
  }

  void emit_weight_gradient(std::size_t op, Call& call) {
    for (const WeightId id : graph_.ops[op].weights) {
      call.task().gradients.push_back(weights_.use(op, id));
    }
    emit(call);
  }

  void backward_embedding(std::size_t op) {
    const GraphOp& entry = graph_.ops[op];
    const View dy = gradient(entry.outputs[0]);
    const View& index = value(entry.inputs[0]);
    const View table = weight_gradient(op, entry.weights[0]);
    Call call(KernelKind::Embedding, KernelPart::WeightGradient, entry);
    call.kernel().first_row = first_row(op);
    call.read(index, as_row(index.operand)).read(dy, as_matrix(dy.operand, table_columns(op)));
    call.write(table, as_matrix(table.operand, table_columns(op)));
    emit_weight_gradient(op, call);
  }

  void backward_matmul(std::size_t op) {
    const GraphOp& entry = graph_.ops[op];
    const View dy = gradient(entry.outputs[0]);
    const View matrix = weight(op, entry.weights[0]);
    const Operand shape = weight_matrix(op, matrix);
    const Operand rows =
        dense_operand({element_count(dy.operand) / shape.sizes[1], shape.sizes[1]});
    const View& x = value(entry.inputs[0]);
    const Operand in = as_matrix(x.operand, contracted(op));
    if (needs_gradient(entry.inputs[0])) {
      GradientSum& sum = gradients_[entry.inputs[0]];
      std::optional<View>& known = gives_partial_gradient(op) ? sum.partial : sum.whole;
      const View dx = gradient_target(entry.inputs[0]);
      Call call(KernelKind::Matmul, KernelPart::InputGradient, entry);
      call.read(matrix, shape).read(dy, rows).addend(known, in);
      emit(call.write(dx, in));
      known = dx;
    }
    const View dw = weight_gradient(op, entry.weights[0]);
    Call call(KernelKind::Matmul, KernelPart::WeightGradient, entry);
    call.read(x, in).read(dy, rows).write(dw, weight_matrix(op, dw));
    if (entry.weights.size() == 2) {
      const View db = weight_gradient(op, entry.weights[1]);
      call.write(db, as_row(db.operand));
    }
    emit_weight_gradient(op, call);
  }

  void backward_norm(std::size_t op) {
    const GraphOp& entry = graph_.ops[op];
    const View dy = gradient(entry.outputs[0]);
    const View& x = value(entry.inputs[0]);
    const Operand shape = as_matrix(x.operand, norm_columns(op));
    const auto& statistics = statistics_.at(op);
    if (needs_gradient(entry.inputs[0])) {
      const View gain = weight(op, entry.weights[0]);
      std::optional<View>& known = gradients_[entry.inputs[0]].whole;
      const View dx = gradient_target(entry.inputs[0]);
      Call call(KernelKind::LayerNorm, KernelPart::InputGradient, entry);
      call.read(x, shape).read(gain, as_row(gain.operand));
      call.read(statistics[0]).read(statistics[1]).read(dy, shape).addend(known, shape);
      emit(call.write(dx, shape));
      known = dx;
    }
    Call call(KernelKind::LayerNorm, KernelPart::WeightGradient, entry);
    call.read(x, shape).read(statistics[0]).read(statistics[1]).read(dy, shape);
    for (const WeightId id : entry.weights) {
      const View dw = weight_gradient(op, id);
      call.write(dw, as_row(dw.operand));
    }
    emit_weight_gradient(op, call);
  }

  void backward_attention(std::size_t op) {
    const GraphOp& entry = graph_.ops[op];
    const View dy = gradient(entry.outputs[0]);
    const View& y = value(entry.outputs[0]);
    Call call(KernelKind::Attention, KernelPart::InputGradient, entry);
    call.kernel().place = attention_place(op);
    for (std::size_t i = 0; i < 3; ++i) {
      const View& x = value(entry.inputs[i]);
      call.read(x, as_heads(x.operand));
    }
    call.read(y, as_heads(y.operand)).read(statistics_.at(op)[0]).read(dy, as_heads(dy.operand));
    for (std::size_t i = 0; i < 3; ++i) {
      const View dx = gradient_target(entry.inputs[i]);
      call.write(dx, as_heads(dx.operand));
      gradients_[entry.inputs[i]].whole = dx;
    }
    emit(call);
  }

  void backward_elementwise(std::size_t op) {
    const GraphOp& entry = graph_.ops[op];
    if (!needs_gradient(entry.inputs[0])) return;
    const View dy = gradient(entry.outputs[0]);
    std::optional<View>& known = gradients_[entry.inputs[0]].whole;
    const View dx = gradient_target(entry.inputs[0]);
    Call call = elementwise_call(op, KernelPart::InputGradient);
    if (entry.kind == OpKind::Activation) call.read(value(entry.inputs[0]));
    emit(call.read(dy).addend(known, dx.operand).write(dx));
    gradients_[entry.inputs[0]].whole = dx;
  }

  // An operand of the result's shape has the result's gradient; one that was repeated has the sum.
  void backward_add(std::size_t op) {
    const GraphOp& entry = graph_.ops[op];
    const View dy = gradient(entry.outputs[0]);
    for (const TensorId input : entry.inputs) {
      if (!needs_gradient(input)) continue;
      if (graph_.tensors[input.index()].dims == graph_.tensors[entry.outputs[0].index()].dims) {
        add_whole(input, dy);
        continue;
      }
      const View dx = new_gradient(input);
      emit_sum(input, dy, std::nullopt, dx, dy.operand, broadcast(input, entry.outputs[0]));
      add_whole(input, dx);
    }
  }

  void backward_loss(std::size_t op) {
    const GraphOp& entry = graph_.ops[op];
    const View& logits = value(entry.inputs[0]);
    const View& labels = value(entry.inputs[1]);
    const Operand shape = as_matrix(logits.operand, 1);
    const auto& statistics = statistics_.at(op);
    const View dx = gradient_target(entry.inputs[0]);
    Call call(KernelKind::Loss, KernelPart::InputGradient, entry);
    call.kernel().first_row = first_class(op);
    call.read(logits, shape).read(labels, as_row(labels.operand));
    emit(call.read(statistics[0]).read(statistics[1]).write(dx, shape));
    gradients_[entry.inputs[0]].whole = dx;
  }

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
  std::map<TensorId, View> values_;
  std::map<std::size_t, std::vector<View>> statistics_;  // by op
  std::map<TensorId, GradientSum> gradients_;
  std::vector<TensorId> received_;
};

}  // namespace

Fragment lower_chunk(const Program& program, const PlannedGraph& planned, const Plan& plan,
                     const Placement& placement, const OpSharding& sharding,
                     const WeightBuckets& weights, std::size_t chunk) {
  return ChunkLowering(program, planned, plan, placement, sharding, weights, chunk).lower();
}

}  // namespace meshwright
