#pragma once

#include <map>
#include <string>
#include <string_view>

#include "costmodel/cluster/fabric.h"

namespace meshwright {

// How many times a step of a collective takes the latency that a cluster file gives the level, by
// what the step belongs to: rings and trees, each with protocols for small, medium and large
// messages (of NCCL: LL, LL128, Simple).
struct HopFactors {
  double ring_small = 0, ring_large = 0;
  double tree_small = 0, tree_medium = 0, tree_large = 0;
  friend bool operator==(const HopFactors&, const HopFactors&) = default;
};

// What was fitted for a fabric between domains.
struct NetworkFit {
  HopFactors hops;      // of rings for each domain, of trees for each doubling of domains
  double pat = 0;       // of an all-gather by parallel trees, for each doubling, in latencies
  double pat_rank = 0;  // and for each member
  double peer = 0;      // of an all-to-all, for each other member, in latencies
  double pair = 0;      // of a send, in latencies
  double small_base_s = 0, medium_base_s = 0, large_base_s = 0;
  // Small messages carry flags beside their data: half of the bandwidth, and no more than this.
  double small_bytes_per_s = 0;
  // Of the bandwidth that the cluster file gives.
  double medium_share = 0, ring_share = 0, tree_share = 0, peer_share = 0, pair_share = 0;
  // Parts of a message that follow each other through a ring or tree wait for each other:
  // this times the root of latency times bandwidth time.
  double ring_wait = 0, tree_wait = 0;
  friend bool operator==(const NetworkFit&, const NetworkFit&) = default;
};

// What was fitted for fabrics: between domains, and the steps inside a domain that a collective
// over several takes.
struct NetworkFits {
  std::map<Fabric, NetworkFit> between;
  std::map<Fabric, HopFactors> inside;
  friend bool operator==(const NetworkFits&, const NetworkFits&) = default;
};

// Of a fabric without a fit those of InfiniBand, or of NVLink. These two must be there.
const NetworkFit& between_fit(const NetworkFits& fits, Fabric fabric);
const HopFactors& inside_fit(const NetworkFits& fits, Fabric fabric);
bool has_fit(const NetworkFits& fits, Fabric fabric);

// Every number by its name, such as "hops.ring_small" or "ring_share".
std::map<std::string, double> fit_values(const NetworkFit& fit);
std::map<std::string, double> fit_values(const HopFactors& fit);
// False: there is no such name.
bool set_fit_value(NetworkFit& fit, std::string_view name, double value);
bool set_fit_value(HopFactors& fit, std::string_view name, double value);

// Of NCCL's tuner (2.30, src/graph/tuning.cc) and typical of what was fitted: for tests and where
// a fit starts.
NetworkFits typical_network();

}  // namespace meshwright
