#pragma once

#include <cstddef>
#include <vector>

#include "costmodel/model/op_graph.h"

namespace meshwright {

// `count` repetitions, each of `length` ops, from op `first` on.
struct OpRun {
  std::size_t first = 0;
  std::size_t length = 0;
  std::size_t count = 1;
  std::size_t end() const { return first + length * count; }
  friend bool operator==(const OpRun&, const OpRun&) = default;
};

// Cuts the list of ops into runs that cover it in order. Ops repeat when they agree in kind,
// attributes and shapes, when each repetition reads its own tensors, those of the one before it
// or the same outer ones, and when nothing after the run reads any but the last repetition. The
// run that covers most comes first, then the one that fewest tensors enter, then the shortest,
// then the one whose ops have most of their names in common.
// Time O(ops * kLongestRepetition), and for every run that of looking through the stretches of ops
// that are alike.
std::vector<OpRun> find_repeats(const OpGraph& graph);

inline constexpr std::size_t kLongestRepetition = 2048;

}  // namespace meshwright
