#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "planner/bound/layer_ops.h"

namespace meshwright {

// Results of a layer's ops that are dropped together, and what that costs.
//
// A dropped result is computed again where a gradient reads it, with all that it needs of what is
// not kept either: of ops that keep nothing those that such an op reads, and so on.
struct KeptSet {
  std::vector<std::size_t> dropped;  // ops, in order
  Bytes bytes;                       // kept
  double seconds = 0;                // computed again

  bool operator==(const KeptSet&) const = default;
};

// Which ops have something to drop.
std::vector<bool> droppable(const std::vector<LayerOp>& ops);

// What dropping these results costs.
KeptSet kept_set(const std::vector<LayerOp>& ops, std::vector<std::size_t> dropped);

// All sets of results that may be dropped such that no other keeps less without computing more
// again, from most to fewest bytes; of equal ones one.
//
// By elimination: ops are decided from the last to the first. Decisions meet only in ops that keep
// nothing and are read by decided ones, so of those that leave the same of these to be computed
// again only the undominated are remembered. None: more than `most` would have to be.
std::optional<std::vector<KeptSet>> kept_front(const std::vector<LayerOp>& ops,
                                               const std::vector<bool>& may_drop, std::size_t most);

}  // namespace meshwright
