#include "costmodel/price/collective_time.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

namespace meshwright {
namespace {

using Times = std::vector<CollectiveTime>;

// NCCL reduces in the switch only in groups of more than four.
constexpr std::int64_t kFewestInSwitch = 5;

// What bytes take, without latency.
double carried(const ProtocolFit& fit, double volume, double bandwidth) {
  return volume / (bandwidth * fit.share) + fit.ramp_s * std::sqrt(volume);
}

double protocol_time(const ProtocolFit& fit, double steps, double volume, const LinkSpeed& link) {
  return fit.base_s + steps * fit.hops * link.latency.value() +
         carried(fit, volume, link.bandwidth.value());
}

bool reduces_in_switch(std::int64_t members, const GroupLinks& links, const LinkFit& fit) {
  return links.in_switch && fit.in_switch && members >= kFewestInSwitch;
}

Times times_in_domain(TransferKind kind, Bytes size, const GroupShape& group,
                      const GroupLinks& links, const LinkFit& fit) {
  const double volume = bytes_sent(kind, size, group.members);
  const auto steps = static_cast<double>(ring_steps(kind, group).inside);
  const auto time = [&](const ProtocolFit& by, double count) {
    return Seconds(protocol_time(by, count, volume, links.inside));
  };
  if (kind == TransferKind::AllToAll) return {{time(fit.all_to_all, steps), Algorithm::Direct}};
  Times times = {{time(fit.small, steps), Algorithm::SmallRing},
                 {time(fit.large, steps), Algorithm::LargeRing}};
  if (kind == TransferKind::AllReduce && reduces_in_switch(group.members, links, fit)) {
    constexpr double kUpAndDown = 2;
    times.push_back({time(*fit.in_switch, kUpAndDown), Algorithm::InSwitch});
  }
  return times;
}

// A group over several domains and what was fitted for its links.
class AcrossDomains {
 public:
  AcrossDomains(TransferKind kind, Bytes size, const GroupShape& group, const GroupLinks& links,
                const LinkFit& fit, const NetworkFits& network)
      : kind_(kind),
        group_(group),
        links_(links),
        fit_(fit),
        network_(between_fit(network, links.network.fabric)),
        inside_(inside_fit(network, links.inside.fabric)),
        size_(static_cast<double>(size.value())),
        volume_(bytes_sent(kind, size, group.members)) {}

  Times times() const {
    if (is_pair(kind_)) return {{Seconds(pair_time()), Algorithm::Direct}};
    if (kind_ == TransferKind::AllToAll) return {{Seconds(all_to_all_time()), Algorithm::Direct}};
    Times times = {{Seconds(small_ring()), Algorithm::SmallRing},
                   {Seconds(large_ring()), Algorithm::LargeRing}};
    if (kind_ == TransferKind::AllReduce) {
      times.push_back({Seconds(small_tree()), Algorithm::SmallTree});
      times.push_back({Seconds(medium_tree()), Algorithm::MediumTree});
      times.push_back({Seconds(large_tree()), Algorithm::LargeTree});
    } else if (kind_ != TransferKind::Broadcast && group_.most_in_domain == 1) {
      times.push_back({Seconds(parallel_trees()), Algorithm::ParallelTrees});
    }
    return times;
  }

 private:
  double hop() const { return links_.network.latency.value(); }
  // Of the steps inside, where there are any.
  double inside_hop() const { return links_.inside.latency.value(); }
  bool has_inside() const { return group_.most_in_domain > 1; }
  double doublings() const { return std::log2(static_cast<double>(group_.domains)); }
  double chain() const { return static_cast<double>(group_.most_in_domain - 1); }
  double card() const { return links_.network.bandwidth.value(); }
  // Of all cards that the smallest part of the group has in a domain; a broadcast is one chain.
  double cards() const {
    if (kind_ == TransferKind::Broadcast) return card();
    return card() * static_cast<double>(group_.fewest_in_domain);
  }
  double rate(double share) const {
    const double between = cards() * share;
    return has_inside() ? std::min(between, links_.inside.bandwidth.value() * fit_.large.share)
                        : between;
  }
  double small_rate() const {
    constexpr double kDataBesideFlags = 0.5;
    return std::min(rate(kDataBesideFlags), network_.small_bytes_per_s);
  }

  double ring_latency(double inside, double between) const {
    const RingSteps steps = ring_steps(kind_, group_);
    return static_cast<double>(steps.inside) * inside * inside_hop() +
           static_cast<double>(steps.network) * between * hop();
  }
  double small_ring() const {
    return network_.small_base_s + ring_latency(inside_.ring_small, network_.hops.ring_small) +
           volume_ / small_rate();
  }
  double large_ring() const {
    const double latency = ring_latency(inside_.ring_large, network_.hops.ring_large);
    const double bytes = volume_ / rate(network_.ring_share);
    return network_.large_base_s + latency + bytes +
           network_.ring_wait * std::sqrt(latency * bytes);
  }

  // Up and down: a chain in each domain, a level of the tree for every doubling.
  double tree_latency(double inside, double between) const {
    return 2 * (chain() * inside * inside_hop() + doublings() * between * hop());
  }
  double small_tree() const {
    return network_.small_base_s + tree_latency(inside_.tree_small, network_.hops.tree_small) +
           volume_ / small_rate();
  }
  double medium_tree() const {
    return network_.medium_base_s + tree_latency(inside_.tree_medium, network_.hops.tree_medium) +
           volume_ / rate(network_.medium_share);
  }
  // The double tree has a domain send every byte up and down, as the ring does. Of two domains each
  // could send half of the bytes up and the other half down; only trees whose domains reduce in
  // their switches were seen to be that much faster (NVLSTree on H100: 478 GB/s over 400, but 190
  // over 200 on A100).
  double large_tree() const {
    const double latency = tree_latency(inside_.tree_large, network_.hops.tree_large);
    const bool once =
        group_.domains == 2 && reduces_in_switch(group_.fewest_in_domain, links_, fit_);
    const double sent = once ? size_ : volume_;
    const double bytes = std::max(sent / (cards() * network_.tree_share), inside_bytes());
    return network_.large_base_s + latency + bytes +
           network_.tree_wait * std::sqrt(latency * bytes);
  }
  double inside_bytes() const {
    if (!has_inside()) return 0;
    const double bandwidth = links_.inside.bandwidth.value();
    const double ring = carried(fit_.large, volume_, bandwidth);
    return reduces_in_switch(group_.fewest_in_domain, links_, fit_)
               ? std::min(ring, carried(*fit_.in_switch, volume_, bandwidth))
               : ring;
  }

  double parallel_trees() const {
    constexpr double kShare = 0.75;  // of a ring's bandwidth, as NCCL's tuner has it
    const auto members = static_cast<double>(group_.members);
    return network_.large_base_s +
           (doublings() * network_.pat + members * network_.pat_rank) * hop() +
           volume_ / rate(kShare * network_.ring_share);
  }

  double pair_time() const {
    return network_.small_base_s + network_.pair * hop() + size_ / (card() * network_.pair_share);
  }

  // What leaves the domain goes through the member's own card, the rest over the links inside.
  double all_to_all_time() const {
    const auto members = static_cast<double>(group_.members);
    const double beyond = members - static_cast<double>(group_.fewest_in_domain);
    const double leaving = size_ * beyond / members;
    const double staying = size_ * chain() / members;
    const double inside =
        has_inside() ? carried(fit_.all_to_all, staying, links_.inside.bandwidth.value()) : 0;
    return network_.large_base_s + (members - 1) * network_.peer * hop() +
           std::max(leaving / (card() * network_.peer_share), inside);
  }

  TransferKind kind_;
  const GroupShape& group_;
  const GroupLinks& links_;
  const LinkFit& fit_;
  const NetworkFit& network_;
  const HopFactors& inside_;
  double size_, volume_;
};

}  // namespace

std::string_view to_text(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::SmallRing:
      return "ring_small";
    case Algorithm::LargeRing:
      return "ring_large";
    case Algorithm::SmallTree:
      return "tree_small";
    case Algorithm::MediumTree:
      return "tree_medium";
    case Algorithm::LargeTree:
      return "tree_large";
    case Algorithm::InSwitch:
      return "in_switch";
    case Algorithm::ParallelTrees:
      return "parallel_trees";
    case Algorithm::Direct:
      return "direct";
  }
  return "";
}

RingSteps ring_steps(TransferKind kind, const GroupShape& group) {
  const bool pair = is_pair(kind);
  const std::int64_t rounds = kind == TransferKind::AllReduce ? 2 : 1;
  const std::int64_t all = pair ? 1 : rounds * (group.members - 1);
  const std::int64_t network = group.domains == 1 ? 0 : (pair ? 1 : rounds * (group.domains - 1));
  return {.inside = all - network, .network = network};
}

// DeepEP's and Hybrid-EP's own tables: their kernels reach 0.88 of a network card, what stays on
// the node not counted, and 0.85 of a device's NVLink, what stays on the device counted, after 0.1
// ms; the calls take a quarter longer, for copies to and from buffers.
Seconds merged_rows_time(Bytes size, std::int64_t copies, const GroupShape& group,
                         const GroupLinks& links) {
  constexpr double kCardShare = 0.88, kInsideShare = 0.85, kStart = 1e-4, kCall = 1.25;
  const auto chosen = static_cast<double>(std::max<std::int64_t>(copies, 1));
  const double once = static_cast<double>(size.value()) / chosen;
  // Of so many places, those that have any of a token's experts.
  const auto reached = [&](std::int64_t places) {
    const auto all = static_cast<double>(places);
    return all * (1 - std::pow(1 - 1 / all, chosen));
  };
  double longest = 0;
  if (group.domains > 1) {
    const auto domains = static_cast<double>(group.domains);
    longest = once * reached(group.domains) * (domains - 1) / domains /
              (links.network.bandwidth.value() * kCardShare);
  }
  if (group.most_in_domain > 1) {
    longest = std::max(
        longest, once * reached(group.members) / (links.inside.bandwidth.value() * kInsideShare));
  }
  return Seconds((longest + kStart) * kCall);
}

CollectiveTime collective_time(TransferKind kind, Bytes size, const GroupShape& group,
                               const GroupLinks& links, const LinkFit& fit,
                               const NetworkFits& network) {
  assert(group.members > 1);
  const Times times = group.domains == 1
                          ? times_in_domain(kind, size, group, links, fit)
                          : AcrossDomains(kind, size, group, links, fit, network).times();
  return *std::ranges::min_element(times, {}, &CollectiveTime::time);
}

}  // namespace meshwright
