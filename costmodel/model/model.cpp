#include "costmodel/model/model.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "costmodel/base/checked.h"
#include "costmodel/model/model_hash.h"
#include "costmodel/model/repeats.h"

namespace meshwright {
namespace {

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto dot = name.find('.');
    parts.push_back(name.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    name.remove_prefix(dot + 1);
  }
}

std::string join(const std::vector<std::string_view>& parts) {
  std::string name;
  for (const std::string_view part : parts) {
    if (!name.empty()) name += '.';
    name += part;
  }
  return name;
}

// "layers.0.norm" and "layers.1.norm" -> "layers.*.norm".
std::string common_name(std::string_view first, std::string_view second) {
  auto parts = parts_of(first);
  const auto others = parts_of(second);
  if (parts.size() != others.size()) return std::string(first);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] != others[i]) parts[i] = "*";
  }
  return join(parts);
}

// What all ops' names begin with, or the first's and the last's name.
std::string block_name(const std::vector<Op>& ops) {
  auto common = parts_of(ops.front().name);
  for (const Op& op : ops) {
    const auto parts = parts_of(op.name);
    const auto differ = std::mismatch(common.begin(), common.end(), parts.begin(), parts.end());
    common.erase(differ.first, common.end());
  }
  if (ops.size() == 1 && common.size() > 1) common.pop_back();
  if (!common.empty()) return join(common);
  return ops.front().name + " .. " + ops.back().name;
}

// Builds the blocks of a model one after the other.
class ModelBuilder {
 public:
  explicit ModelBuilder(const OpGraph& graph)
      : graph_(graph), places_(graph.tensors.size()), weight_runs_(graph.weights.size()) {
    model_.name = graph.name;
    model_.notes = graph.notes;
    model_.longest_sequence = graph.longest_sequence;
    model_.dims = graph.dims;
    for (const TensorId input : graph.inputs) {
      places_[input.index()] = {std::nullopt, TensorId(model_.inputs.size())};
      model_.inputs.push_back(graph.tensors[input.index()]);
    }
  }

  Model build() {
    const std::vector<OpRun> runs = find_repeats(graph_);
    for (std::size_t r = 0; r < runs.size(); ++r) note_weight_uses(runs[r], r);
    for (const OpRun& run : runs) add_block(run);
    return std::move(model_);
  }

 private:
  // A weight is a block's own when only one repetition of one run uses it.
  struct WeightRun {
    bool used = false;
    bool shared = false;
    std::size_t run = 0, repetition = 0;
  };

  void note_weight_uses(const OpRun& run, std::size_t number) {
    for (std::size_t i = run.first; i < run.end(); ++i) {
      const std::size_t repetition = (i - run.first) / run.length;
      for (const WeightId weight : graph_.ops[i].weights) {
        WeightRun& use = weight_runs_[weight.index()];
        if (!use.used) use = {true, false, number, repetition};
        if (use.run != number || use.repetition != repetition) use.shared = true;
      }
    }
  }

  const GraphOp& op_at(const OpRun& run, std::size_t repetition, std::size_t a) const {
    return graph_.ops[run.first + repetition * run.length + a];
  }

  std::string name_at(const OpRun& run, const std::string& first, const std::string& second) {
    return run.count == 1 ? first : common_name(first, second);
  }

  void add_block(const OpRun& run) {
    block_ = Block{};
    block_.count = static_cast<std::int64_t>(run.count);
    own_.clear();
    own_weights_.clear();
    add_inputs(run);
    for (std::size_t a = 0; a < run.length; ++a) add_op(run, a);
    set_carried(run);
    block_.name = block_name(block_.ops);
    for (std::size_t a = 0; a < run.length; ++a) {
      const GraphOp& last = op_at(run, run.count - 1, a);
      for (std::size_t slot = 0; slot < last.outputs.size(); ++slot) {
        places_[last.outputs[slot].index()] = {model_.blocks.size(), block_.ops[a].outputs[slot]};
      }
    }
    model_.blocks.push_back(std::move(block_));
  }

  // Outer tensors in the order they are first read; two that differ later stay two.
  void add_inputs(const OpRun& run) {
    std::vector<bool> inside(graph_.tensors.size(), false);
    for (std::size_t a = 0; a < run.length; ++a) {
      for (const TensorId output : op_at(run, 0, a).outputs) inside[output.index()] = true;
    }
    for (std::size_t a = 0; a < run.length; ++a) {
      const auto& inputs = op_at(run, 0, a).inputs;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inside[inputs[i].index()] || own_.contains(input_key(run, a, i))) continue;
        own_[input_key(run, a, i)] = TensorId(block_.tensors.size());
        block_.inputs.push_back({places_[inputs[i].index()], std::nullopt});
        block_.tensors.push_back(graph_.tensors[inputs[i].index()]);
      }
    }
  }

  // Identifies a tensor that repetition 0 reads: what it reads and what repetition 1 reads there.
  using Key = std::pair<TensorId, TensorId>;
  Key input_key(const OpRun& run, std::size_t a, std::size_t i) const {
    return {op_at(run, 0, a).inputs[i], op_at(run, run.count > 1 ? 1 : 0, a).inputs[i]};
  }

  void add_op(const OpRun& run, std::size_t a) {
    const GraphOp& first = op_at(run, 0, a);
    const GraphOp& second = op_at(run, run.count > 1 ? 1 : 0, a);
    Op op{.kind = first.kind,
          .name = name_at(run, first.name, second.name),
          .names = {},
          .inputs = {},
          .weights = {},
          .outputs = {},
          .attributes = first.attributes};
    for (std::size_t r = 0; r < run.count; ++r) op.names.push_back(op_at(run, r, a).name);
    for (std::size_t i = 0; i < first.inputs.size(); ++i) {
      op.inputs.push_back(own_.at(input_key(run, a, i)));
    }
    for (std::size_t w = 0; w < first.weights.size(); ++w) {
      op.weights.push_back(use_weight(run, a, w));
    }
    for (std::size_t slot = 0; slot < first.outputs.size(); ++slot) {
      const TensorId id(block_.tensors.size());
      own_[{first.outputs[slot], second.outputs[slot]}] = id;
      Tensor tensor = graph_.tensors[first.outputs[slot].index()];
      tensor.name = name_at(run, tensor.name, graph_.tensors[second.outputs[slot].index()].name);
      block_.tensors.push_back(std::move(tensor));
      op.outputs.push_back(id);
    }
    block_.ops.push_back(std::move(op));
  }

  WeightUse use_weight(const OpRun& run, std::size_t a, std::size_t w) {
    const WeightId id = op_at(run, 0, a).weights[w];
    const GraphWeight& weight = graph_.weights[id.index()];
    const bool shared = weight_runs_[id.index()].shared;
    auto& known = shared ? shared_weights_ : own_weights_;
    auto& list = shared ? model_.shared_weights : block_.weights;
    if (const auto found = known.find(id); found != known.end()) return {shared, found->second};
    Weight added{.names = {}, .dims = weight.dims, .frozen = weight.frozen};
    for (std::size_t r = 0; r < (shared ? 1 : run.count); ++r) {
      added.names.push_back(graph_.weights[op_at(run, r, a).weights[w].index()].name);
    }
    known[id] = WeightId(list.size());
    list.push_back(std::move(added));
    return {shared, known[id]};
  }

  void set_carried(const OpRun& run) {
    if (run.count == 1) return;
    std::map<TensorId, TensorId> produced;  // by repetition 0 -> in the block
    for (std::size_t a = 0; a < run.length; ++a) {
      const auto& outputs = op_at(run, 0, a).outputs;
      for (std::size_t slot = 0; slot < outputs.size(); ++slot) {
        produced[outputs[slot]] = block_.ops[a].outputs[slot];
      }
    }
    for (const auto& [key, id] : own_) {
      if (id.index() >= block_.inputs.size()) continue;
      const auto found = produced.find(key.second);
      if (found != produced.end()) block_.inputs[id.index()].carried = found->second;
    }
  }

  const OpGraph& graph_;
  Model model_;
  std::vector<OuterTensor> places_;  // of graph tensors, once their block is there
  std::vector<WeightRun> weight_runs_;
  std::map<WeightId, WeightId> shared_weights_;

  Block block_;  // the one being built, with its tensors and weights by the graph's ids
  std::map<Key, TensorId> own_;
  std::map<WeightId, WeightId> own_weights_;
};

}  // namespace

Model make_model(const OpGraph& graph) {
  Model model = ModelBuilder(graph).build();
  model.hash = hash_of(model);
  return model;
}

std::int64_t size_of_dim(const Model& model, std::string_view name) {
  const auto found = std::ranges::find(model.dims, name, &Dim::name);
  return found == model.dims.end() ? 0 : found->size;
}

const Weight& weight_of(const Model& model, const Block& block, const WeightUse& use) {
  return use.shared ? model.shared_weights[use.id.index()] : block.weights[use.id.index()];
}

DimSizes::DimSizes(const Model& model, std::int64_t batch, std::int64_t sequence) {
  for (const Dim& dim : model.dims) {
    switch (dim.role) {
      case DimRole::Fixed:
        sizes_.push_back(dim.size);
        break;
      case DimRole::Batch:
        sizes_.push_back(batch);
        break;
      case DimRole::Sequence:
        sizes_.push_back(sequence);
        break;
    }
  }
}

std::int64_t DimSizes::elements(const std::vector<DimId>& dims) const {
  std::int64_t count = 1;
  for (const DimId dim : dims) count = checked_multiply(count, (*this)[dim]);
  return count;
}

namespace {

// How much of a weight one token reads: all of it, but of expert weights only as many slices of
// the first dimension as experts are chosen.
std::int64_t active_elements(const Model& model, const Block& block, const Op& op,
                             const Weight& weight, const DimSizes& sizes) {
  const std::int64_t all = sizes.elements(weight.dims);
  if (op.kind != OpKind::ExpertMatmul) return all;
  const auto& chosen = block.tensors[op.inputs[1].index()].dims;
  const std::int64_t experts = model.dims[weight.dims.front().index()].size;
  return checked_multiply(all / experts, sizes[chosen.back()]);
}

}  // namespace

ParameterCount count_parameters(const Model& model) {
  const DimSizes sizes(model, 1, 1);
  ParameterCount count;
  std::vector<bool> counted(model.shared_weights.size(), false);
  const auto add = [&](const Weight& weight, std::int64_t times, std::int64_t active) {
    const std::int64_t elements = checked_multiply(sizes.elements(weight.dims), times);
    count.total = checked_add(count.total, elements);
    if (!weight.frozen) count.trainable = checked_add(count.trainable, elements);
    count.active = checked_add(count.active, checked_multiply(active, times));
  };
  for (const Block& block : model.blocks) {
    std::vector<bool> own(block.weights.size(), false);
    for (const Op& op : block.ops) {
      for (const WeightUse& use : op.weights) {
        auto& seen = use.shared ? counted : own;
        if (seen[use.id.index()]) continue;
        seen[use.id.index()] = true;
        const Weight& weight = weight_of(model, block, use);
        add(weight, use.shared ? 1 : block.count, active_elements(model, block, op, weight, sizes));
      }
    }
  }
  return count;
}

}  // namespace meshwright
