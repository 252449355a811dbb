#include "costmodel/price/nccl_choice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace meshwright {
namespace {

// Latencies in microseconds by protocol, small messages first (LL, LL128, Simple).
struct Latencies {
  double base, inside, network;
};
constexpr std::array<Latencies, 3> kRing = {{{6.6, 0.6, 2.7}, {14, 1.9, 4.0}, {8.4, 3.4, 14}}};
constexpr std::array<Latencies, 3> kTree = {{{6.8, 0.6, 5.0}, {14, 1.25, 8.5}, {8.4, 4.0, 14}}};
constexpr double kInSwitchLatency = 25;

// Share of the Simple protocol's bandwidth by protocol.
constexpr std::array<double, 3> kRingShare = {0.5, 0.92, 1.0};
constexpr std::array<double, 3> kTreeShare = {1 / 3.8, 0.92 * 120 / 128, 0.92};
// Of an all-reduce in the switch: one pass instead of two, at this efficiency.
constexpr double kInSwitchShare = 2 * 0.85;

double log2_of(std::int64_t nodes) { return std::ceil(std::log2(static_cast<double>(nodes))); }

// Bytes per microsecond that a ring through the whole group carries.
double ring_rate(const GroupShape& group, const GroupLinks& links) {
  const double inside = links.inside.value();
  const double network = links.network.value() * static_cast<double>(group.fewest_on_node);
  const double rate = group.nodes == 1               ? inside
                      : group.members == group.nodes ? network
                                                     : std::min(inside, network);
  return rate * 1e-6;
}

double best_ring(TransferKind kind, Bytes size, const GroupShape& group, const GroupLinks& links) {
  const RingSteps steps = ring_steps(kind, group);
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t p = 0; p < kRing.size(); ++p) {
    const double latency = kRing[p].base + static_cast<double>(steps.inside) * kRing[p].inside +
                           static_cast<double>(steps.network) * kRing[p].network;
    const double rate = ring_rate(group, links) * kRingShare[p];
    best = std::min(best, latency + bytes_sent(kind, size, group.members) / rate);
  }
  return best;
}

double best_tree(Bytes size, const GroupShape& group, const GroupLinks& links) {
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t p = 0; p < kTree.size(); ++p) {
    const double chain = static_cast<double>(group.most_on_node - 1) * kTree[p].inside;
    const double latency = kTree[p].base + 2 * (chain + log2_of(group.nodes) * kTree[p].network);
    const double rate = ring_rate(group, links) * kTreeShare[p];
    best =
        std::min(best, latency + bytes_sent(TransferKind::AllReduce, size, group.members) / rate);
  }
  return best;
}

// Of the switch only the node's own share of the volume is seen by a member's link.
double in_switch(Bytes size, const GroupShape& group, const GroupLinks& links) {
  return kInSwitchLatency + bytes_sent(TransferKind::AllReduce, size, group.members) /
                                (links.inside.value() * 1e-6 * kInSwitchShare);
}

}  // namespace

RingSteps ring_steps(TransferKind kind, const GroupShape& group) {
  const bool pair = is_pair(kind);
  const std::int64_t rounds = kind == TransferKind::AllReduce ? 2 : 1;
  const std::int64_t all = pair ? 1 : rounds * (group.members - 1);
  const std::int64_t network = group.nodes == 1 ? 0 : (pair ? 1 : rounds * (group.nodes - 1));
  return {.inside = all - network, .network = network};
}

Algorithm nccl_choice(TransferKind kind, Bytes size, const GroupShape& group,
                      const GroupLinks& links) {
  if (kind != TransferKind::AllReduce) return Algorithm::Ring;
  const double ring = best_ring(kind, size, group, links);
  if (group.nodes > 1) {
    return best_tree(size, group, links) < ring ? Algorithm::Tree : Algorithm::Ring;
  }
  // NCCL reduces in the switch only in groups of more than four.
  constexpr std::int64_t kFewestInSwitch = 5;
  if (!links.in_switch || group.members < kFewestInSwitch) return Algorithm::Ring;
  return in_switch(size, group, links) < ring ? Algorithm::InSwitch : Algorithm::Ring;
}

}  // namespace meshwright
