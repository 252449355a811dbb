#include "simulator/lowering/op_sharding.h"

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
  if (producer < planned_.graph.ops.size()) return share(producer, dim);
  if (planned_.graph.dims[dim.index()].role == DimRole::Batch) return {0, plan_.micro_batch};
  return {0, whole(dim)};
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
