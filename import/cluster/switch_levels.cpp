#include "import/cluster/switch_levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

// How many neighbours each switch of a level has, in their order. None: a switch's nodes do not
// stand next to each other, or some node has no switch.
std::optional<std::int64_t> span_of_switches(const std::vector<const NetworkSwitch*>& switches,
                                             const std::vector<HostFiles>& hosts) {
  std::map<std::string, std::size_t> switch_of;
  for (std::size_t i = 0; i < switches.size(); ++i) {
    for (const std::string& host : switches[i]->hosts) switch_of[host] = i;
  }
  std::vector<std::pair<std::size_t, std::int64_t>> runs;  // switch, nodes
  for (const HostFiles& host : hosts) {
    const auto found = switch_of.find(host.host);
    if (found == switch_of.end()) return {};
    if (runs.empty() || runs.back().first != found->second) runs.emplace_back(found->second, 0);
    ++runs.back().second;
  }
  const std::int64_t span = runs.front().second;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const bool last = i + 1 == runs.size();
    if (last ? runs[i].second > span : runs[i].second != span) return {};
  }
  return span;
}

}  // namespace

std::vector<LinkLevel> with_switches(const std::vector<LinkLevel>& network, const SwitchTree& tree,
                                     const std::string& source, const std::vector<HostFiles>& hosts,
                                     std::vector<std::string>& contradictions) {
  std::map<std::int64_t, std::vector<const NetworkSwitch*>> by_level;
  for (const NetworkSwitch& one : tree.switches) by_level[one.level].push_back(&one);
  std::vector<LinkLevel> levels(network.begin(), network.end() - 1);
  const auto nodes = static_cast<std::int64_t>(hosts.size());
  std::int64_t inside = levels.empty() ? 1 : levels.back().span.value_or(1);
  for (const auto& [number, switches] : by_level) {
    const auto span = span_of_switches(switches, hosts);
    if (!span || (*span < nodes && *span % inside != 0)) {
      contradictions.push_back(fmt::format(
          "{}: switches of level {} have no equal numbers of neighbouring nodes, so the "
          "cluster has no level for them",
          printable(source), number));
      continue;
    }
    if (*span >= nodes || *span <= inside) continue;
    LinkLevel level = network.back();
    level.name = fmt::format("switch-{}", number);
    level.span = *span;
    levels.push_back(std::move(level));
    inside = *span;
  }
  levels.push_back(network.back());
  return levels;
}

}  // namespace meshwright
