#include "simulator/classes/represent.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "simulator/classes/group_places.h"
#include "simulator/engine/refinement.h"
#include "simulator/lowering/alike_places.h"
#include "simulator/lowering/lower.h"

namespace meshwright {
namespace {

struct LinkHash {
  std::size_t operator()(const LinkId& link) const {
    std::uint64_t x = (std::uint64_t{link.level} << 3) | static_cast<std::uint64_t>(link.kind);
    x = (x << 10) ^ link.rail;
    x = (x << 32) ^ link.first;
    x *= 0x9e3779b97f4a7c15ull;
    return x ^ (x >> 29);
  }
};

class Representation {
 public:
  Representation(const Model& model, const Plan& plan, const Cluster& cluster)
      : lowering_(model, plan),
        plan_(plan),
        cluster_(cluster),
        devices_(devices_of(plan)),
        map_(cluster),
        places_(plan) {}

  // None: they cannot be told apart.
  std::optional<Represented> run() {
    if (!find_groups()) return std::nullopt;
    find_links();
    add_copies();
    coloring_ = refine(input_);
    lower_classes();
    add_meetings();
    add_links();
    return std::move(result_);
  }

  bool is_uniform() const { return places_.is_uniform(); }

  // Colours to start from: the place in the plan, the type of the device and what is slow about it.
  // False: one of them is not wanted.
  bool start(const IsWanted& is_wanted) {
    const auto alike = alike_places(lowering_.planned(), plan_);
    std::map<std::tuple<std::uint32_t, std::size_t, double>, std::uint32_t> numbers;
    std::vector<DeviceId> firsts;
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      const auto [slot, place] = places_.slot_and_place(d);
      const DeviceType& type = device_type_of(cluster_, devices_[d]);
      const auto node = static_cast<std::size_t>(
          std::ranges::find_if(cluster_.node_types,
                               [&](const NodeType& entry) { return &entry.device == &type; }) -
          cluster_.node_types.begin());
      const auto next = static_cast<std::uint32_t>(firsts.size());
      const auto [entry, added] =
          numbers.try_emplace({alike[slot][place], node, speed_of(cluster_, devices_[d])}, next);
      if (added) firsts.push_back(devices_[d]);
      if (added) first_device_.push_back(d);
      input_.device_colors.push_back(entry->second);
    }
    first_color_ = input_.device_colors;
    for (const DeviceId device : firsts) {
      first_programs_.push_back(lowering_.program(device));
      if (!is_wanted(first_programs_.back())) return false;
    }
    for (const Program& program : first_programs_) groups_.push_back(groups_of(program));
    return true;
  }

 private:
  bool find_groups() {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      const std::uint32_t color = input_.device_colors[d];
      input_.device_groups.push_back(places_.groups_like(d, first_device_[color], groups_[color]));
    }
    auto groups = places_.finish();
    if (!groups) return false;
    input_.groups = std::move(*groups);
    return true;
  }

  std::uint32_t number_of(const LinkId& link) {
    const auto [number, added] =
        link_numbers_.try_emplace(link, static_cast<std::uint32_t>(capacities_.size()));
    if (added) {
      capacities_.push_back(map_.capacity(link));
      input_.link_colors.push_back(
          link_colors_
              .try_emplace({link.kind, link.level, capacities_.back().value()},
                           static_cast<std::uint32_t>(link_colors_.size()))
              .first->second);
    }
    return number->second;
  }

  void find_links() {
    std::vector<DeviceId> members;
    for (std::size_t g = 0; g < input_.groups.size(); ++g) {
      members.clear();
      for (const auto& member : input_.groups[g].members)
        members.push_back(devices_[member.device]);
      for (const TransferKind family : places_.families(g)) {
        for (const LinkLoad& load : map_.loads(family, members)) {
          input_.groups[g].crossings.push_back(
              {number_of(load.link), static_cast<std::uint32_t>(family), load.share});
        }
      }
    }
  }

  // A device that copies is one more group, with itself, that crosses its host links.
  void add_copies() {
    for (std::uint32_t d = 0; d < devices_.size(); ++d) {
      std::array<bool, kCopyDirections> copies{};
      for (const HostCopy& copy : first_programs_[first_color_[d]].copies) {
        copies[static_cast<std::size_t>(copy.direction)] = true;
      }
      if (!copies[0] && !copies[1]) continue;
      auto& own = input_.device_groups[d];
      RefinementInput::Group group{.members = {{d, static_cast<std::uint32_t>(own.size())}},
                                   .crossings = {}};
      for (std::uint32_t direction = 0; direction < kCopyDirections; ++direction) {
        if (!copies[direction]) continue;
        const LinkId link = map_.host_link(static_cast<CopyDirection>(direction), devices_[d]);
        group.crossings.push_back({number_of(link), direction, 1});
      }
      own.push_back(static_cast<std::uint32_t>(input_.groups.size()));
      input_.groups.push_back(std::move(group));
    }
  }

  // Colours are numbered in the order of their first devices.
  void lower_classes() {
    result_.classes.resize(coloring_.device_count);
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      auto& members = result_.classes[coloring_.devices[d]];
      if (members.empty()) representatives_.push_back(d);
      members.push_back(devices_[d]);
    }
    std::vector<DeviceId> missing;
    for (const std::size_t d : representatives_) {
      if (first_device_[first_color_[d]] != d) missing.push_back(devices_[d]);
    }
    std::vector<Program> lowered;
    for (const DeviceId device : missing) lowered.push_back(lowering_.program(device));
    std::size_t next = 0;
    for (const std::size_t d : representatives_) {
      const std::uint32_t color = first_color_[d];
      result_.programs.push_back(
          std::move(first_device_[color] == d ? first_programs_[color] : lowered[next++]));
      assert(result_.programs.back().transfers.size() == groups_[color].of_transfer.size());
    }
    Scene& scene = result_.scene;
    scene.programs = result_.programs;
    for (const std::size_t d : representatives_) {
      const auto& members = result_.classes[coloring_.devices[d]];
      scene.counts.push_back(static_cast<std::int64_t>(members.size()));
      scene.speeds.push_back(speed_of(cluster_, devices_[d]));
    }
  }

  // The group of a representative's transfer, and which of its groups that is.
  std::pair<std::uint32_t, std::uint32_t> group_of(std::size_t p, std::uint32_t transfer) const {
    const std::size_t d = representatives_[p];
    const std::uint32_t turn = groups_[first_color_[d]].of_transfer[transfer];
    return {input_.device_groups[d][turn], turn};
  }

  // Tasks are one transfer when their groups have the same colour and it is each group's turn. A
  // class takes part once for each turn in which its devices have such a group.
  void add_meetings() {
    std::vector<std::uint32_t> members(coloring_.group_count, 0);
    for (std::size_t g = 0; g < input_.groups.size(); ++g) {
      std::uint32_t& count = members[coloring_.groups[g]];
      if (count > 0) continue;
      std::set<std::pair<std::uint32_t, std::uint32_t>> parts;
      for (const auto& member : input_.groups[g].members) {
        parts.emplace(coloring_.devices[member.device], member.turn);
      }
      count = static_cast<std::uint32_t>(parts.size());
    }
    Meetings& meetings = result_.scene.meetings;
    std::vector<std::vector<std::uint32_t>> of_group(coloring_.group_count);
    for (std::size_t p = 0; p < result_.programs.size(); ++p) {
      const Program& program = result_.programs[p];
      std::vector<std::size_t> met(input_.device_groups[representatives_[p]].size());
      auto& own = meetings.of_program.emplace_back();
      for (const Task& task : program.tasks) {
        if (task.kind != TaskKind::Transfer) continue;
        const auto [group, turn] = group_of(p, task.what);
        const std::uint32_t color = coloring_.groups[group];
        const std::size_t number = met[turn]++;
        if (number == of_group[color].size()) {
          of_group[color].push_back(static_cast<std::uint32_t>(meetings.members.size()));
          meetings.members.push_back(members[color]);
        }
        own.push_back(of_group[color][number]);
      }
    }
  }

  // One link of each colour stands for all: how many groups of each colour cross it is how many
  // cross any.
  void add_links() {
    Scene& scene = result_.scene;
    std::vector<std::optional<std::uint32_t>> chosen(coloring_.link_count);
    scene.links.resize(coloring_.link_count);
    for (std::uint32_t l = 0; l < capacities_.size(); ++l) {
      auto& link = chosen[coloring_.links[l]];
      if (link) continue;
      link = l;
      scene.links[coloring_.links[l]] = capacities_[l];
    }
    using Key = std::pair<std::uint32_t, std::uint32_t>;  // colour of the group, family
    std::map<Key, std::map<std::pair<std::uint32_t, double>, std::uint32_t>> crossed;
    for (std::size_t g = 0; g < input_.groups.size(); ++g) {
      for (const auto& crossing : input_.groups[g].crossings) {
        const std::uint32_t color = coloring_.links[crossing.link];
        if (chosen[color] != crossing.link) continue;
        ++crossed[{coloring_.groups[g], crossing.family}][{color, crossing.share}];
      }
    }
    for (std::size_t p = 0; p < result_.programs.size(); ++p) {
      auto& uses = scene.uses.emplace_back();
      auto& inside = scene.inside_node.emplace_back();
      const auto& transfers = result_.programs[p].transfers;
      for (std::uint32_t t = 0; t < transfers.size(); ++t) {
        const auto family = static_cast<std::uint32_t>(family_of(transfers[t].kind));
        auto& own = uses.emplace_back();
        for (const auto& [use, count] : crossed[{coloring_.groups[group_of(p, t).first], family}]) {
          own.push_back({.link = use.first, .multiplicity = count, .share = use.second});
        }
        inside.push_back(map_.inside_domain(transfers[t].group));
      }
      CopyUses& copy_uses = scene.copy_uses.emplace_back();
      if (result_.programs[p].copies.empty()) continue;
      const std::uint32_t copies = input_.device_groups[representatives_[p]].back();
      for (std::uint32_t direction = 0; direction < kCopyDirections; ++direction) {
        for (const auto& [use, count] : crossed[{coloring_.groups[copies], direction}]) {
          copy_uses[direction].push_back(
              {.link = use.first, .multiplicity = count, .share = use.second});
        }
      }
    }
  }

  const Lowering lowering_;
  const Plan& plan_;
  const Cluster& cluster_;
  const std::vector<DeviceId> devices_;
  const LinkMap map_;
  GroupPlaces places_;
  RefinementInput input_;
  Coloring coloring_;
  std::vector<BytesPerSecond> capacities_;  // by link
  std::unordered_map<LinkId, std::uint32_t, LinkHash> link_numbers_;
  std::map<std::tuple<LinkKind, std::uint32_t, double>, std::uint32_t> link_colors_;
  // By colour to start from: its first device, that one's program and the groups it has.
  std::vector<std::size_t> first_device_;
  std::vector<Program> first_programs_;
  std::vector<ProgramGroups> groups_;
  std::vector<std::uint32_t> first_color_;    // by device
  std::vector<std::size_t> representatives_;  // by class
  Represented result_;
};

}  // namespace

Represented represent(const Model& model, const Plan& plan, const Cluster& cluster) {
  return *represent_if(model, plan, cluster, [](const Program&) { return true; });
}

std::optional<Represented> represent_if(const Model& model, const Plan& plan,
                                        const Cluster& cluster, const IsWanted& is_wanted) {
  Representation representation(model, plan, cluster);
  if (representation.is_uniform()) {
    if (!representation.start(is_wanted)) return std::nullopt;
    if (auto represented = representation.run()) return represented;
  }
  Represented all = represent_all(model, plan, cluster);
  return std::ranges::all_of(all.programs, is_wanted) ? std::optional(std::move(all))
                                                      : std::nullopt;
}

Represented represent_all(const Model& model, const Plan& plan, const Cluster& cluster) {
  Represented all;
  all.programs = lower_all(model, plan);
  for (const Program& program : all.programs) all.classes.push_back({program.device});
  all.scene = scene_of(all.programs, cluster);
  return all;
}

}  // namespace meshwright
