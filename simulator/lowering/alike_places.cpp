#include "simulator/lowering/alike_places.h"

#include <map>
#include <set>
#include <utility>

namespace meshwright {
namespace {

using Signature = std::vector<std::int64_t>;

class AlikePlaces {
 public:
  AlikePlaces(const PlannedGraph& planned, const Plan& plan)
      : dims_(planned.graph.dims), plan_(plan) {
    const auto add = [&](const Layout& layout) {
      for (const DimLayout& dim : layout.dims) {
        if (planned.graph.dims[dim.dim.index()].role == DimRole::Batch) continue;
        if (!dim.sharding.axes.empty()) cuts_.insert({dim.dim, dim.sharding});
      }
    };
    for (const PlannedOp& op : planned.planned) {
      for (const auto* list :
           {&op.layouts.inputs, &op.layouts.weights, &op.layouts.outputs, &op.weights}) {
        for (const Layout& layout : *list) add(layout);
      }
    }
    for (const Layout& layout : planned.tensors) add(layout);
  }

  std::vector<std::vector<std::uint32_t>> find() const {
    std::vector<std::vector<std::uint32_t>> numbers;
    std::map<Signature, std::uint32_t> known;
    for (std::size_t slot = 0; slot < plan_.slots.size(); ++slot) {
      auto& own = numbers.emplace_back();
      for (std::size_t i = 0; i < plan_.slots[slot].mesh.devices().size(); ++i) {
        const auto next = static_cast<std::uint32_t>(known.size());
        own.push_back(known.try_emplace(split_sizes(slot, i), next).first->second);
      }
    }
    return numbers;
  }

 private:
  // The slot, and how much of each split dimension a place has. Replicas have equal parts of each
  // bucket.
  Signature split_sizes(std::size_t slot, std::size_t index) const {
    const Mesh& mesh = plan_.slots[slot].mesh;
    const auto coordinates = mesh.coordinates_at(index);
    Signature sizes = {static_cast<std::int64_t>(slot)};
    for (const auto& [dim, sharding] : cuts_) {
      sizes.push_back(size_of(shard_at(sharding, mesh, whole(dim), coordinates)));
    }
    return sizes;
  }

  std::int64_t whole(DimId dim) const {
    const Dim& entry = dims_[dim.index()];
    return entry.role == DimRole::Fixed      ? entry.size
           : entry.role == DimRole::Sequence ? plan_.sequence
                                             : plan_.micro_batch;
  }

  const std::vector<Dim>& dims_;
  const Plan& plan_;
  std::set<std::pair<DimId, Sharding>> cuts_;  // of all ops and tensors
};

}  // namespace

std::vector<std::vector<std::uint32_t>> alike_places(const PlannedGraph& planned,
                                                     const Plan& plan) {
  return AlikePlaces(planned, plan).find();
}

}  // namespace meshwright
