#include "simulator/lowering/op_sharding.h"

#include <algorithm>

namespace meshwright {

PlannedGraph plan_graph(const Model& model, const Plan& plan) {
  PlannedGraph planned{.graph = unroll(model)};
  for (const Block& block : model.blocks) {
    for (std::int64_t r = 0; r < block.count; ++r) {
      for (const Op& op : block.ops) planned.patterns.push_back(op.name);
    }
  }
  std::map<std::string_view, const OpLayout*> by_name;
  for (const OpLayout& layout : plan.layouts) by_name[layout.op] = &layout;
  planned.producer.assign(planned.graph.tensors.size(), planned.graph.ops.size());
  planned.readers.resize(planned.graph.tensors.size());
  for (std::size_t i = 0; i < planned.graph.ops.size(); ++i) {
    const auto found = by_name.find(planned.patterns[i]);
    planned.layouts.push_back(found == by_name.end() ? nullptr : found->second);
    for (const TensorId t : planned.graph.ops[i].outputs) planned.producer[t.index()] = i;
    for (const TensorId t : planned.graph.ops[i].inputs) planned.readers[t.index()].push_back(i);
  }
  return planned;
}

std::int64_t OpSharding::whole(DimId dim) const {
  const Dim& entry = planned_.graph.dims[dim.index()];
  switch (entry.role) {
    case DimRole::Fixed:
      return entry.size;
    case DimRole::Batch:
      return plan_.global_batch;
    case DimRole::Sequence:
      return plan_.sequence;
  }
  return 0;
}

bool OpSharding::is_split(std::size_t op, DimId dim) const {
  const OpLayout* layout = planned_.layouts[op];
  if (!layout) return false;
  const auto found = layout->work.find(planned_.graph.dims[dim.index()].name);
  if (found == layout->work.end()) return false;
  for (const std::string& axis : found->second) {
    if (placement_.size(axis) > 1) return true;
  }
  return false;
}

Share OpSharding::share(std::size_t op, DimId dim) const {
  // The batch is split over replicas and micro-batches; where it starts is known when it runs.
  if (planned_.graph.dims[dim.index()].role == DimRole::Batch) return {0, plan_.micro_batch};
  Share share{0, whole(dim)};
  if (!is_split(op, dim)) return share;
  for (const std::string& axis :
       planned_.layouts[op]->work.at(planned_.graph.dims[dim.index()].name)) {
    const Share part = share_of(share.size, placement_.coordinate(axis), placement_.size(axis));
    share = {share.start + part.start, part.size};
  }
  return share;
}

Share OpSharding::tensor_share(TensorId tensor, DimId dim) const {
  const std::size_t producer = planned_.producer[tensor.index()];
  if (producer >= planned_.graph.ops.size()) {
    const auto& readers = planned_.readers[tensor.index()];
    if (!readers.empty()) return share(readers.front(), dim);
    const bool batch = planned_.graph.dims[dim.index()].role == DimRole::Batch;
    return {0, batch ? plan_.micro_batch : whole(dim)};
  }
  if (planned_.graph.dims[dim.index()].role == DimRole::Sequence && scatters(producer)) {
    return share_of(whole(dim), placement_.coordinate("tp"), placement_.size("tp"));
  }
  return share(producer, dim);
}

bool OpSharding::is_split_tensor(TensorId tensor, DimId dim) const {
  return planned_.graph.dims[dim.index()].role != DimRole::Batch &&
         tensor_share(tensor, dim).size != whole(dim);
}

bool OpSharding::gathers(std::size_t op) const {
  const OpLayout* layout = planned_.layouts[op];
  return layout && !layout->input_relayout.empty() && placement_.size("tp") > 1;
}

bool OpSharding::scatters(std::size_t op) const {
  const OpLayout* layout = planned_.layouts[op];
  return layout && placement_.size("tp") > 1 && !layout->relayout.empty() &&
         layout->relayout.front() == kScatterStep;
}

bool OpSharding::gives_partial_gradient(std::size_t op, WeightId weight) const {
  const OpGraph& graph = planned_.graph;
  const auto& dims = graph.weights[weight.index()].dims;
  const auto& rows = graph.tensors[graph.ops[op].outputs[0].index()].dims;
  return std::any_of(rows.begin(), rows.end(), [&](DimId dim) {
    return std::find(dims.begin(), dims.end(), dim) == dims.end() && is_split(op, dim);
  });
}

std::vector<std::int64_t> OpSharding::work_sizes(std::size_t op, TensorId tensor) const {
  std::vector<std::int64_t> sizes;
  for (const DimId dim : planned_.graph.tensors[tensor.index()].dims) {
    sizes.push_back(share(op, dim).size);
  }
  return sizes;
}

std::vector<std::int64_t> OpSharding::sizes(TensorId tensor) const {
  std::vector<std::int64_t> sizes;
  for (const DimId dim : planned_.graph.tensors[tensor.index()].dims) {
    sizes.push_back(tensor_share(tensor, dim).size);
  }
  return sizes;
}

std::vector<GlobalExtent> OpSharding::place(TensorId tensor) const {
  std::vector<GlobalExtent> place;
  for (const DimId dim : planned_.graph.tensors[tensor.index()].dims) {
    place.push_back({tensor_share(tensor, dim).start, whole(dim)});
  }
  return place;
}

std::vector<std::int64_t> OpSharding::weight_sizes(std::size_t op, WeightId weight) const {
  std::vector<std::int64_t> sizes;
  for (const DimId dim : planned_.graph.weights[weight.index()].dims) {
    sizes.push_back(share(op, dim).size);
  }
  return sizes;
}

std::vector<GlobalExtent> OpSharding::weight_place(std::size_t op, WeightId weight) const {
  std::vector<GlobalExtent> place;
  for (const DimId dim : planned_.graph.weights[weight.index()].dims) {
    place.push_back({share(op, dim).start, whole(dim)});
  }
  return place;
}

}  // namespace meshwright
