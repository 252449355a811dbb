#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace meshwright {

// Shares of links among transfers under way ("flows"). A flow that runs alone has rate kFullRate
// and takes `demand` of each link it crosses; at a lower rate it takes proportionally less. Rates
// are max-min fair: no flow can be faster without slowing one that is not faster than it
// (Bertsekas, Gallager, "Data Networks", 2nd edition, 6.5.2, by filling up level by level).
//
// Everything is counted in whole numbers and rounded down, so a result depends neither on the order
// of flows nor on whether equal ones are counted one by one.
inline constexpr std::int64_t kFullLink = std::int64_t{1} << 16;
inline constexpr std::int64_t kFullRate = std::int64_t{1} << 30;

struct FlowUse {
  std::uint32_t link = 0;
  std::int64_t demand = 0;  // of the link's kFullLink, by the flow and all equal ones that cross it
};

class LinkSharing {
 public:
  explicit LinkSharing(std::size_t links);

  // Numbers of flows are the caller's and may be used again after `stop`. `uses` must stay where
  // they are until then.
  void start(std::uint32_t flow, std::span<const FlowUse> uses);
  void stop(std::uint32_t flow);

  // Brings rates up to date; returns the flows whose rate is not what it was. A flow starts with
  // kFullRate.
  const std::vector<std::uint32_t>& settle();
  std::int64_t rate(std::uint32_t flow) const { return flows_[flow].rate; }

 private:
  struct Flow {
    std::span<const FlowUse> uses;
    std::int64_t rate = kFullRate, before = kFullRate;
    bool active = false, reached = false, fixed = false;
  };
  struct Link {
    std::int64_t load = 0;             // at full rates
    std::vector<std::uint32_t> flows;  // active ones
    std::int64_t free = 0, weight = 0;
    bool dirty = false, reached = false;
  };

  void touch(std::uint32_t link);
  // Flows that saturated links tie to what has changed, and those links.
  void reach();
  void reach_flow(std::uint32_t flow);
  void fill();
  void fix(std::uint32_t flow, std::int64_t rate);

  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> dirty_;  // links
  std::vector<std::uint32_t> reached_flows_, reached_links_, changed_;
};

}  // namespace meshwright
