#pragma once

#include <cstdint>

#include "costmodel/base/units.h"
#include "costmodel/kernel/transfer.h"

namespace meshwright {

// How the devices of a group are spread over nodes.
struct GroupShape {
  std::int64_t members = 1;
  std::int64_t nodes = 1;
  std::int64_t fewest_on_node = 1;  // of the nodes that have members
  std::int64_t most_on_node = 1;
  friend bool operator==(const GroupShape&, const GroupShape&) = default;
};

// What carries a group's collective: bandwidths of one device, one way.
struct GroupLinks {
  BytesPerSecond inside;   // the node; of a group of one per node it does not matter
  BytesPerSecond network;  // between nodes
  bool in_switch = false;  // the links inside a node can reduce
};

// Ways a collective is carried out. Ring: everybody passes parts on to the next. Tree: nodes form
// a double binary tree, each with a chain inside. InSwitch: the switch of a node reduces.
enum class Algorithm { Ring, Tree, InSwitch };

// Steps of a ring and how many of them leave a node: 2 (n-1) for an all-reduce, n-1 for the others;
// one for Send and Receive.
struct RingSteps {
  std::int64_t inside = 0, network = 0;
};
RingSteps ring_steps(TransferKind kind, const GroupShape& group);

// What NCCL would choose: the smallest time by the constants of its own tuner (NCCL 2.30,
// src/graph/tuning.cc) over algorithms and protocols. The tuner is for choosing, not for
// predicting: its times are off by a fifth.
Algorithm nccl_choice(TransferKind kind, Bytes size, const GroupShape& group,
                      const GroupLinks& links);

}  // namespace meshwright
