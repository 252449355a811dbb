#include "simulator/lowering/alike_places.h"

#include <map>

#include "simulator/lowering/op_sharding.h"

namespace meshwright {
namespace {

using Signature = std::vector<std::int64_t>;

class AlikePlaces {
 public:
  AlikePlaces(const Model& model, const Plan& plan)
      : plan_(plan), planned_(plan_graph(model, plan)) {}

  std::vector<std::vector<std::uint32_t>> find() const {
    std::vector<std::vector<std::uint32_t>> numbers;
    std::map<Signature, std::uint32_t> known;
    for (std::size_t slot = 0; slot < plan_.slots.size(); ++slot) {
      auto& own = numbers.emplace_back();
      for (std::size_t i = 0; i < plan_.slots[slot].devices.size(); ++i) {
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
    const Slot& entry = plan_.slots[slot];
    const auto coordinates = coordinates_of(entry, index);
    Signature sizes = {static_cast<std::int64_t>(slot)};
    for (const OpLayout& layout : plan_.layouts) {
      for (const auto& [dim, axes] : layout.work) {
        std::int64_t size = size_of(dim);
        for (const std::string& axis : axes) {
          for (std::size_t a = 0; a < entry.axes.size(); ++a) {
            if (entry.axes[a].name != axis) continue;
            size = share_of(size, coordinates[a], entry.axes[a].size).size;
          }
        }
        sizes.push_back(size);
      }
    }
    return sizes;
  }

  std::int64_t size_of(const std::string& name) const {
    for (const Dim& dim : planned_.graph.dims) {
      if (dim.name != name) continue;
      return dim.role == DimRole::Fixed      ? dim.size
             : dim.role == DimRole::Sequence ? plan_.sequence
                                             : plan_.micro_batch;
    }
    return 1;
  }

  const Plan& plan_;
  const PlannedGraph planned_;
};

}  // namespace

std::vector<std::int64_t> coordinates_of(const Slot& slot, std::size_t index) {
  std::vector<std::int64_t> coordinates(slot.axes.size());
  auto rest = static_cast<std::int64_t>(index);
  for (std::size_t a = slot.axes.size(); a-- > 0;) {
    coordinates[a] = rest % slot.axes[a].size;
    rest /= slot.axes[a].size;
  }
  return coordinates;
}

std::vector<std::vector<std::uint32_t>> alike_places(const Model& model, const Plan& plan) {
  return AlikePlaces(model, plan).find();
}

}  // namespace meshwright
