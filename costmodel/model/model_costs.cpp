#include "costmodel/model/model_costs.h"

#include <algorithm>
#include <set>

#include "costmodel/base/checked.h"
#include "costmodel/model/op_rules.h"

namespace meshwright {
namespace {

constexpr Bytes kIndex = 8_B;

class Profiler {
 public:
  Profiler(const Model& model, const CostOptions& options)
      : model_(model),
        options_(options),
        sizes_(model, options.micro_batch, options.sequence),
        counted_(model.shared_weights.size(), false) {}

  BlockCosts profile(const Block& block, const std::vector<bool>& leaves) {
    BlockCosts result{.name = block.name, .count = block.count, .ops = {}, .work = {}};
    const std::vector<bool> saved = saved_tensors(block);
    std::vector<bool> attributed(block.tensors.size(), false);
    std::vector<bool> own(block.weights.size(), false);
    for (const Op& op : block.ops) {
      const OpView view = view_of(model_, block, op);
      OpCosts entry{.name = op.name, .kind = op.kind, .work = {}};
      add_parameters(entry.work, block, op, own);
      const OpFlops flops = flops_of(view, sizes_);
      entry.work.forward = flops.forward;
      entry.work.input_gradient = flops.input_gradient;
      entry.work.weight_gradient = flops.weight_gradient;
      add_moved(entry.work, view);
      add_memory(entry.work, op, view, saved, leaves, attributed);
      result.work += entry.work;
      result.ops.push_back(std::move(entry));
    }
    return result;
  }

 private:
  Bytes bytes_of(const Tensor& tensor) const {
    const Bytes element = tensor.element == Element::Index ? kIndex : options_.element;
    return element * sizes_.elements(tensor.dims);
  }

  std::vector<bool> saved_tensors(const Block& block) const {
    std::vector<bool> saved(block.tensors.size(), false);
    for (const Op& op : block.ops) {
      const Saved kept =
          saved_by(options_.kernels, view_of(model_, block, op), sizes_, options_.element);
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (kept.inputs[i]) saved[op.inputs[i].index()] = true;
      }
      for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        if (kept.outputs[i]) saved[op.outputs[i].index()] = true;
      }
    }
    return saved;
  }

  void add_parameters(Work& work, const Block& block, const Op& op, std::vector<bool>& own) {
    for (const WeightUse& use : op.weights) {
      auto& seen = use.shared ? counted_ : own;
      if (seen[use.id.index()]) continue;
      seen[use.id.index()] = true;
      work.parameters =
          checked_add(work.parameters, sizes_.elements(weight_of(model_, block, use).dims));
    }
  }

  // Every operand is read or written once; what a kernel keeps for itself is written and read.
  void add_moved(Work& work, const OpView& view) const {
    if (is_view(view.op->kind)) return;
    const BackwardNeeds needs = backward_needs(view);
    const Saved saved = saved_by(options_.kernels, view, sizes_, options_.element);
    Bytes weights, trainable, written, needed;
    for (const Weight* weight : view.weights) {
      const Bytes size = options_.element * read_elements(view, *weight);
      weights += size;
      if (!weight->frozen) trainable += size;
    }
    for (const Tensor* output : view.outputs) written += bytes_of(*output);
    work.forward_moved = weights + written + saved.extra + saved.workspace * 2;
    for (const Tensor* input : view.inputs) work.forward_moved += bytes_of(*input);
    if (needs.has_input_gradient) {
      work.backward_moved += written + saved.extra + (needs.input_gradient.weights ? weights : 0_B);
      for (std::size_t i = 0; i < view.inputs.size(); ++i) {
        if (view.inputs[i]->needs_gradient) work.backward_moved += bytes_of(*view.inputs[i]);
        if (needs.input_gradient.inputs[i]) work.backward_moved += bytes_of(*view.inputs[i]);
      }
    }
    if (needs.has_weight_gradient) {
      work.backward_moved += written + trainable;
      for (std::size_t i = 0; i < view.inputs.size(); ++i) {
        if (needs.weight_gradient.inputs[i]) work.backward_moved += bytes_of(*view.inputs[i]);
      }
    }
  }

  // A look-up reads one row for every index, not the whole table.
  std::int64_t read_elements(const OpView& view, const Weight& weight) const {
    const std::int64_t all = sizes_.elements(weight.dims);
    if (view.op->kind != OpKind::Embedding) return all;
    return std::min(all, sizes_.elements(view.outputs[0]->dims));
  }

  void add_memory(Work& work, const Op& op, const OpView& view, const std::vector<bool>& saved,
                  const std::vector<bool>& leaves, std::vector<bool>& attributed) const {
    const Saved kept = saved_by(options_.kernels, view, sizes_, options_.element);
    const auto attribute = [&](TensorId id, const Tensor& tensor) {
      if (attributed[id.index()]) return;
      attributed[id.index()] = true;
      work.saved += bytes_of(tensor);
    };
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (kept.inputs[i]) attribute(op.inputs[i], *view.inputs[i]);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      if (kept.outputs[i]) attribute(op.outputs[i], *view.outputs[i]);
    }
    work.saved += kept.extra;
    work.temporary += kept.workspace;
    if (is_view(op.kind)) return;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const std::size_t id = op.outputs[i].index();
      if (!saved[id] && !leaves[id]) work.temporary += bytes_of(*view.outputs[i]);
    }
  }

  const Model& model_;
  const CostOptions& options_;
  const DimSizes sizes_;
  std::vector<bool> counted_;  // shared weights
};

// Which tensors of each block are read outside it: they are not temporary there.
std::vector<std::vector<bool>> leaving_tensors(const Model& model) {
  std::vector<std::vector<bool>> leaves;
  for (const Block& block : model.blocks) leaves.emplace_back(block.tensors.size(), false);
  for (std::size_t b = 0; b < model.blocks.size(); ++b) {
    for (const BlockInput& input : model.blocks[b].inputs) {
      if (input.source.block) leaves[*input.source.block][input.source.tensor.index()] = true;
      if (input.carried) leaves[b][input.carried->index()] = true;
    }
  }
  return leaves;
}

std::optional<std::int64_t> token_count(const Model& model, const CostOptions& options) {
  std::set<DimId> sequences;
  for (const Tensor& input : model.inputs) {
    for (const DimId dim : input.dims) {
      if (model.dims[dim.index()].role == DimRole::Sequence) sequences.insert(dim);
    }
  }
  if (sequences.empty()) return std::nullopt;
  return checked_product(
      {options.micro_batch, options.sequence, static_cast<std::int64_t>(sequences.size())});
}

}  // namespace

Work& Work::operator+=(const Work& other) {
  parameters = checked_add(parameters, other.parameters);
  forward += other.forward;
  input_gradient += other.input_gradient;
  weight_gradient += other.weight_gradient;
  forward_moved += other.forward_moved;
  backward_moved += other.backward_moved;
  saved += other.saved;
  temporary += other.temporary;
  return *this;
}

Work operator*(Work work, std::int64_t times) {
  return {.parameters = checked_multiply(work.parameters, times),
          .forward = work.forward * times,
          .input_gradient = work.input_gradient * times,
          .weight_gradient = work.weight_gradient * times,
          .forward_moved = work.forward_moved * times,
          .backward_moved = work.backward_moved * times,
          .saved = work.saved * times,
          .temporary = work.temporary * times};
}

ModelCosts model_costs(const Model& model, const CostOptions& options) {
  ModelCosts result{.parameters = count_parameters(model)};
  Profiler profiler(model, options);
  const auto leaves = leaving_tensors(model);
  for (std::size_t b = 0; b < model.blocks.size(); ++b) {
    result.blocks.push_back(profiler.profile(model.blocks[b], leaves[b]));
    const BlockCosts& block = result.blocks.back();
    result.total += block.work * block.count;
    for (const OpCosts& op : block.ops) {
      auto& part = op.kind == OpKind::Attention ? result.attention_forward : result.linear_forward;
      part += op.work.forward * block.count;
    }
  }
  result.tokens = token_count(model, options);
  return result;
}

}  // namespace meshwright
