#pragma once

#include <cstdint>
#include <string_view>

#include "costmodel/base/units.h"
#include "costmodel/kernel/transfer.h"
#include "costmodel/price/device_fit.h"
#include "costmodel/price/network_fit.h"

namespace meshwright {

// How the devices of a group are spread over domains: nodes, or racks that NVLink joins.
struct GroupShape {
  std::int64_t members = 1;
  std::int64_t domains = 1;
  std::int64_t fewest_in_domain = 1;  // of the domains that have members
  std::int64_t most_in_domain = 1;
  friend bool operator==(const GroupShape&, const GroupShape&) = default;
};

// Links of one device, one way, with over-subscription taken off.
struct LinkSpeed {
  BytesPerSecond bandwidth;
  Seconds latency;
  Fabric fabric = Fabric::NvLink;
};

// What carries a group's collective.
struct GroupLinks {
  LinkSpeed inside;        // a domain; of a group with one in each it does not matter
  LinkSpeed network;       // between domains
  bool in_switch = false;  // the links inside a domain can reduce
};

// Ways a transfer is carried out, with the protocol for messages of a size. Ring: everybody passes
// parts on to the next. Tree: domains form a double binary tree, each with a chain inside.
// InSwitch: the switch of a domain reduces. ParallelTrees: an all-gather or reduce-scatter in a
// logarithm of steps (NCCL's PAT), which takes one device in each node. Direct: everybody to whom
// it concerns.
enum class Algorithm {
  SmallRing,
  LargeRing,
  SmallTree,
  MediumTree,
  LargeTree,
  InSwitch,
  ParallelTrees,
  Direct,
};
std::string_view to_text(Algorithm algorithm);

// Steps of a ring and how many of them leave a domain: 2 (n-1) for an all-reduce, n-1 for the
// others; one for Send and Receive.
struct RingSteps {
  std::int64_t inside = 0, network = 0;
};
RingSteps ring_steps(TransferKind kind, const GroupShape& group);

struct CollectiveTime {
  Seconds time;
  Algorithm algorithm = Algorithm::Direct;
};

// A transfer of `size` bytes (the whole range, not the part that a member sends) by a group of more
// than one, alone on its links: the fastest of the algorithms that can do it. Each takes longer for
// more bytes, so the fastest does. A ring over several domains enters and leaves each once per
// channel and channels use the network cards of all members there, so it is as fast as those
// together, if the links inside are.
// How long rows take that go to the devices of their experts and are merged on the way: of a
// token's `copies`, which are `size` together with those of all others, one goes to each node and
// from there to each device that has any of its experts, which are chosen evenly; and back as
// sums.
Seconds merged_rows_time(Bytes size, std::int64_t copies, const GroupShape& group,
                         const GroupLinks& links);

CollectiveTime collective_time(TransferKind kind, Bytes size, const GroupShape& group,
                               const GroupLinks& links, const LinkFit& fit,
                               const NetworkFits& network);

}  // namespace meshwright
