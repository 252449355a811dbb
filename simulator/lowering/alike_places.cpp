#include "simulator/lowering/alike_places.h"

#include <algorithm>
#include <map>
#include <optional>

#include "costmodel/checked.h"
#include "simulator/lowering/op_sharding.h"
#include "simulator/lowering/weight_buckets.h"

namespace meshwright {
namespace {

using Signature = std::vector<std::int64_t>;

// Numbers values in the order they are first seen.
template <class Value>
class Numbers {
 public:
  std::uint32_t of(const Value& value) {
    return numbers_.try_emplace(value, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

 private:
  std::map<Value, std::uint32_t> numbers_;
};

// The part of a range that lies in [first, end).
std::int64_t overlap(std::int64_t a, std::int64_t b, std::int64_t first, std::int64_t end) {
  return std::max<std::int64_t>(0, std::min(b, end) - std::max(a, first));
}

// What replica `replica` updates and counts of a bucket: how many weights that decay and how many
// that do not, and the lengths of the runs of gradients that it counts.
void add_own_part(const Bucket& bucket, const Program& program, std::int64_t replica,
                  Signature& signature) {
  if (!bucket.gradients) return;
  const std::int64_t first = bucket.own_count < bucket.count ? replica * bucket.own_count : 0;
  const std::int64_t end = first + bucket.own_count;
  signature.push_back(overlap(0, bucket.decayed, first, end));
  signature.push_back(overlap(bucket.decayed, bucket.filled, first, end));
  std::optional<std::int64_t> run_end;
  for (const std::size_t index : bucket.shards) {
    const WeightShard& shard = program.weights[index];
    const std::int64_t stop = shard.offset + checked_product(shard.sizes);
    const std::int64_t owned = overlap(shard.offset, stop, first, end);
    if (!shard.counted || owned == 0) continue;
    const std::int64_t start = std::max(shard.offset, first);
    if (run_end == start) {
      signature.back() += owned;
    } else {
      signature.push_back(owned);
    }
    run_end = start + owned;
  }
  signature.push_back(-1);  // runs of different buckets do not mix
}

class AlikePlaces {
 public:
  AlikePlaces(const Model& model, const Plan& plan)
      : plan_(plan), planned_(plan_graph(model, plan)) {}

  std::vector<std::vector<std::uint32_t>> find() {
    for (std::size_t slot = 0; slot < plan_.slots.size(); ++slot) find_parts(slot);
    Numbers<Signature> signatures;
    std::vector<std::uint32_t> replicas;
    for (const Signature& own_part : own_parts_) replicas.push_back(signatures.of(own_part));
    std::vector<std::vector<std::uint32_t>> numbers;
    Numbers<Signature> known;
    for (std::size_t slot = 0; slot < plan_.slots.size(); ++slot) {
      auto& own = numbers.emplace_back();
      for (std::size_t i = 0; i < plan_.slots[slot].devices.size(); ++i) {
        own.push_back(known.of(
            {static_cast<std::int64_t>(slot), part_[slot][i],
             replicas[static_cast<std::size_t>(coordinate_of(plan_.slots[slot], i, "dp"))]}));
      }
    }
    return numbers;
  }

 private:
  // How much of each split dimension a place has, and whether it is the one of its tensor-parallel
  // group that counts what all of them hold.
  Signature split_sizes(std::size_t slot, std::size_t index) const {
    const Slot& entry = plan_.slots[slot];
    const auto coordinates = coordinates_of(entry, index);
    Signature sizes;
    for (std::size_t a = 0; a < entry.axes.size(); ++a) {
      if (entry.axes[a].name == "tp") sizes.push_back(coordinates[a] == 0 ? 0 : 1);
    }
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

  // Places of a slot by what they hold of split tensors; then, of one of each kind, what each
  // replica's own part is. Replicas are alike only if they are in all slots: their stages wait for
  // each other.
  void find_parts(std::size_t slot) {
    const auto dp = static_cast<std::size_t>(axis_size(plan_.slots[slot], "dp"));
    own_parts_.resize(std::max(own_parts_.size(), dp));
    Numbers<Signature> parts;
    std::uint32_t seen = 0;
    auto& part = part_.emplace_back();
    for (std::size_t i = 0; i < plan_.slots[slot].devices.size(); ++i) {
      part.push_back(parts.of(split_sizes(slot, i)));
      if (part.back() < seen) continue;
      ++seen;
      add_own_parts(slot, i, dp);
    }
  }

  void add_own_parts(std::size_t slot, std::size_t index, std::size_t dp) {
    const Placement placement(plan_, plan_.slots[slot].devices[index]);
    const OpSharding sharding(planned_, plan_, placement);
    Program program{.device = placement.device(), .precision = plan_.precision};
    const WeightBuckets weights = add_weights(program, planned_, plan_, placement, sharding);
    for (std::size_t replica = 0; replica < dp; ++replica) {
      for (const Bucket& bucket : weights.buckets) {
        add_own_part(bucket, program, static_cast<std::int64_t>(replica), own_parts_[replica]);
      }
    }
  }

  const Plan& plan_;
  const PlannedGraph planned_;
  std::vector<std::vector<std::uint32_t>> part_;  // by slot and place
  std::vector<Signature> own_parts_;              // by replica
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
