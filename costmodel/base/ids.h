#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace meshwright {

// An index into one particular list. Ids of different lists do not mix.
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(std::size_t index) : index_(static_cast<std::uint32_t>(index)) {}
  constexpr std::size_t index() const { return index_; }
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  std::uint32_t index_ = 0;
};

using DimId = Id<struct DimTag>;
using WeightId = Id<struct WeightTag>;
using TensorId = Id<struct TensorTag>;
using OpId = Id<struct OpTag>;
using DeviceId = Id<struct DeviceTag>;
using NodeId = Id<struct NodeTag>;

}  // namespace meshwright

template <class Tag>
struct std::hash<meshwright::Id<Tag>> {
  std::size_t operator()(meshwright::Id<Tag> id) const noexcept { return id.index(); }
};
