#include "simulator/engine/link_sharing.h"

#include <algorithm>
#include <cassert>

namespace meshwright {

LinkSharing::LinkSharing(std::size_t links) : links_(links) {}

void LinkSharing::touch(std::uint32_t link) {
  if (links_[link].dirty) return;
  links_[link].dirty = true;
  dirty_.push_back(link);
}

// A link that carries all its flows at full rate binds nobody, so only others are looked at.
void LinkSharing::start(std::uint32_t flow, std::span<const FlowUse> uses) {
  if (flow >= flows_.size()) flows_.resize(flow + 1);
  assert(!flows_[flow].active);
  flows_[flow] = {.uses = uses, .active = true};
  for (const FlowUse& use : uses) {
    Link& link = links_[use.link];
    link.load += use.demand;
    link.flows.push_back(flow);
    if (link.load > kFullLink) touch(use.link);
  }
}

void LinkSharing::stop(std::uint32_t flow) {
  assert(flows_[flow].active);
  flows_[flow].active = false;
  for (const FlowUse& use : flows_[flow].uses) {
    Link& link = links_[use.link];
    if (link.load > kFullLink) touch(use.link);
    link.load -= use.demand;
    const auto place = std::ranges::find(link.flows, flow);
    *place = link.flows.back();
    link.flows.pop_back();
  }
}

const std::vector<std::uint32_t>& LinkSharing::settle() {
  changed_.clear();
  if (dirty_.empty()) return changed_;
  reach();
  fill();
  for (const std::uint32_t flow : reached_flows_) {
    if (flows_[flow].rate != flows_[flow].before) changed_.push_back(flow);
    flows_[flow].reached = false;
  }
  for (const std::uint32_t link : reached_links_) links_[link].reached = false;
  reached_flows_.clear();
  reached_links_.clear();
  return changed_;
}

void LinkSharing::reach() {
  for (const std::uint32_t link : dirty_) {
    links_[link].dirty = false;
    for (const std::uint32_t flow : links_[link].flows) reach_flow(flow);
  }
  dirty_.clear();
  for (std::size_t i = 0; i < reached_flows_.size(); ++i) {
    for (const FlowUse& use : flows_[reached_flows_[i]].uses) {
      Link& link = links_[use.link];
      if (link.reached || link.load <= kFullLink) continue;
      link.reached = true;
      reached_links_.push_back(use.link);
      for (const std::uint32_t flow : link.flows) reach_flow(flow);
    }
  }
}

void LinkSharing::reach_flow(std::uint32_t flow) {
  Flow& entry = flows_[flow];
  if (entry.reached) return;
  entry.reached = true;
  entry.fixed = false;
  entry.before = entry.rate;
  reached_flows_.push_back(flow);
}

void LinkSharing::fill() {
  for (const std::uint32_t l : reached_links_) {
    links_[l].free = kFullLink * kFullRate;
    links_[l].weight = links_[l].load;
  }
  for (;;) {
    std::int64_t level = kFullRate;
    for (const std::uint32_t l : reached_links_) {
      if (links_[l].weight > 0) level = std::min(level, links_[l].free / links_[l].weight);
    }
    level = std::max<std::int64_t>(level, 1);
    if (level == kFullRate) break;
    // All links that are full at this level at once: their order must not matter.
    std::vector<std::uint32_t> full;
    for (const std::uint32_t l : reached_links_) {
      if (links_[l].weight > 0 && links_[l].free / links_[l].weight <= level) full.push_back(l);
    }
    for (const std::uint32_t l : full) {
      for (const std::uint32_t flow : links_[l].flows) fix(flow, level);
    }
  }
  for (const std::uint32_t flow : reached_flows_) {
    if (!flows_[flow].fixed) flows_[flow].rate = kFullRate;
  }
}

void LinkSharing::fix(std::uint32_t flow, std::int64_t rate) {
  Flow& entry = flows_[flow];
  if (entry.fixed) return;
  entry.fixed = true;
  entry.rate = rate;
  for (const FlowUse& use : entry.uses) {
    links_[use.link].free -= use.demand * rate;
    links_[use.link].weight -= use.demand;
  }
}

}  // namespace meshwright
