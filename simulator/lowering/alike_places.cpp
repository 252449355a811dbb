#include "simulator/lowering/alike_places.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "simulator/lowering/ring_order.h"

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
    for (std::size_t op = 0; op < planned.graph.ops.size(); ++op) add_ring(planned, op);
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
  // Attention whose queries and keys are cut alike, and meet in a ring.
  struct RingCut {
    DimLayout cut;
    AttentionAttributes attributes;
    friend bool operator==(const RingCut&, const RingCut&) = default;
  };

  void add_ring(const PlannedGraph& planned, std::size_t op) {
    const OpPlan* plan = planned.op(op).plan;
    const auto* attributes = std::get_if<AttentionAttributes>(&planned.graph.ops[op].attributes);
    if (!plan || plan->implementation == Implementation::Local || !attributes) return;
    const RingCut ring{planned.op(op).layouts.inputs[1].dims[1], *attributes};
    if (ring.cut.sharding.axes.empty() || std::ranges::count(rings_, ring) > 0) return;
    rings_.push_back(ring);
  }

  // How much of its keys a device's queries see at each step.
  void add_seen(Signature& sizes, const RingCut& ring, const Mesh& mesh,
                const std::vector<std::int64_t>& coordinates) const {
    const Sharding& sharding = ring.cut.sharding;
    const std::int64_t size = whole(ring.cut.dim);
    const RingOrder order(mesh, sharding.axes, coordinates);
    // What is passed on depends on what others see.
    if (ring.attributes.window) sizes.push_back(static_cast<std::int64_t>(order.source(0)));
    const auto queries = shard_at(sharding, mesh, size, coordinates);
    for (std::int64_t step = 0; step < order.steps(); ++step) {
      auto others = coordinates;
      auto member = static_cast<std::int64_t>(order.source(step));
      for (auto axis = sharding.axes.rbegin(); axis != sharding.axes.rend(); ++axis) {
        others[axis->index()] = member % mesh.size(*axis);
        member /= mesh.size(*axis);
      }
      sizes.push_back(seen_pairs(queries, shard_at(sharding, mesh, size, others), ring.attributes));
    }
  }

  // The slot, and how much of each split dimension a place has. Replicas have equal parts of each
  // bucket.
  Signature split_sizes(std::size_t slot, std::size_t index) const {
    const Mesh& mesh = plan_.slots[slot].mesh;
    const auto coordinates = mesh.coordinates_at(index);
    Signature sizes = {static_cast<std::int64_t>(slot)};
    for (const auto& [dim, sharding] : cuts_) {
      sizes.push_back(size_of(shard_at(sharding, mesh, whole(dim), coordinates)));
    }
    for (const RingCut& ring : rings_) add_seen(sizes, ring, mesh, coordinates);
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
  std::vector<RingCut> rings_;
};

}  // namespace

std::vector<std::vector<std::uint32_t>> alike_places(const PlannedGraph& planned,
                                                     const Plan& plan) {
  return AlikePlaces(planned, plan).find();
}

}  // namespace meshwright
