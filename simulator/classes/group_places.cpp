#include "simulator/classes/group_places.h"

#include <algorithm>

namespace meshwright {

TransferKind family_of(TransferKind kind) {
  switch (kind) {
    case TransferKind::AllReduce:
      return TransferKind::AllReduce;
    case TransferKind::ReduceScatter:
    case TransferKind::AllGather:
      return TransferKind::AllGather;
    case TransferKind::AllToAll:
      return TransferKind::AllToAll;
    case TransferKind::Broadcast:
    case TransferKind::Send:
    case TransferKind::Receive:
      return TransferKind::Send;
  }
  return kind;
}

ProgramGroups groups_of(const Program& program) {
  ProgramGroups found;
  std::map<std::pair<bool, const std::vector<DeviceId>*>, std::uint32_t,
           decltype([](const auto& a, const auto& b) {
             return a.first != b.first ? a.first < b.first : *a.second < *b.second;
           })>
      numbers;
  for (const Transfer& transfer : program.transfers) {
    const bool pair = is_pair(transfer.kind);
    const auto [entry, added] = numbers.try_emplace(
        {pair, &transfer.group}, static_cast<std::uint32_t>(found.groups.size()));
    if (added) found.groups.push_back({.pair = pair, .members = transfer.group});
    auto& families = found.groups[entry->second].families;
    const TransferKind family = family_of(transfer.kind);
    if (std::ranges::find(families, family) == families.end()) families.push_back(family);
    found.of_transfer.push_back(entry->second);
  }
  return found;
}

GroupPlaces::GroupPlaces(const Plan& plan) : plan_(plan) {
  const std::vector<DeviceId> devices = devices_of(plan);
  slot_of_.resize(devices.size());
  place_of_.resize(devices.size());
  if (!devices.empty()) number_of_.resize(devices.back().index() + 1);
  for (std::uint32_t i = 0; i < devices.size(); ++i) number_of_[devices[i].index()] = i;
  for (std::uint32_t s = 0; s < plan.slots.size(); ++s) {
    uniform_ &= plan.slots[s].mesh.axes() == plan.slots.front().mesh.axes();
    for (std::uint32_t i = 0; i < plan.slots[s].mesh.devices().size(); ++i) {
      const std::uint32_t number = device_number(plan.slots[s].mesh.devices()[i]);
      slot_of_[number] = s;
      place_of_[number] = i;
    }
  }
}

std::uint64_t GroupPlaces::key_of(std::uint32_t place, const std::vector<bool>& spanned,
                                  bool which) const {
  const auto& axes = plan_.slots.front().mesh.axes();
  std::uint64_t key = 0, factor = 1;
  std::uint64_t rest = place;
  for (std::size_t a = axes.size(); a-- > 0;) {
    const auto size = static_cast<std::uint64_t>(axes[a].size);
    if (spanned[a] == which) key += rest % size * factor;
    if (spanned[a] == which) factor *= size;
    rest /= size;
  }
  return key;
}

std::uint32_t GroupPlaces::pattern_of(std::size_t device, const ProgramGroups::Entry& entry) {
  const auto& axes = plan_.slots.front().mesh.axes();
  Pattern pattern{.spanned = std::vector<bool>(axes.size(), false)};
  std::vector<std::uint32_t> numbers;
  for (const DeviceId member : entry.members) numbers.push_back(device_number(member));
  std::uint32_t stride = 1;
  for (std::size_t a = axes.size(); a-- > 0;) {
    const auto size = static_cast<std::uint32_t>(axes[a].size);
    const std::uint32_t own = place_of_[device] / stride % size;
    for (const std::uint32_t member : numbers) {
      if (place_of_[member] / stride % size != own) pattern.spanned[a] = true;
    }
    stride *= size;
  }
  const bool spans = std::ranges::count(pattern.spanned, true) > 0;
  const bool inside = std::ranges::all_of(
      numbers, [&](std::uint32_t member) { return slot_of_[member] == slot_of_[device]; });
  const bool neighbours = entry.pair && spans && inside;
  std::vector<std::uint64_t> text = {neighbours ? 2u : entry.pair ? 1u : 0u};
  for (const bool spanned : pattern.spanned) text.push_back(spanned ? 1 : 0);
  for (const std::uint32_t member : numbers) {
    if (neighbours) {
      pattern.distances.push_back(distance_of(place_of_[device], place_of_[member]));
      for (const std::uint32_t steps : pattern.distances.back()) text.push_back(steps);
      continue;
    }
    pattern.members.emplace_back(slot_of_[member],
                                 key_of(place_of_[member], pattern.spanned, true));
    text.push_back(pattern.members.back().first);
    text.push_back(pattern.members.back().second);
  }
  const auto [known, added] =
      pattern_numbers_.try_emplace(std::move(text), static_cast<std::uint32_t>(patterns_.size()));
  if (added) {
    for (std::uint32_t i = 0; i < pattern.members.size(); ++i) {
      const auto& [slot, key] = pattern.members[i];
      pattern.position[key * plan_.slots.size() + slot] = i;
    }
    patterns_.push_back(std::move(pattern));
    families_.emplace_back();
  }
  for (const TransferKind family : entry.families) {
    auto& families = families_[known->second];
    if (std::ranges::find(families, family) == families.end()) families.push_back(family);
  }
  return known->second;
}

std::vector<std::uint32_t> GroupPlaces::distance_of(std::uint32_t from, std::uint32_t to) const {
  const auto& axes = plan_.slots.front().mesh.axes();
  std::vector<std::uint32_t> distance(axes.size());
  for (std::size_t a = axes.size(); a-- > 0;) {
    const auto size = static_cast<std::uint32_t>(axes[a].size);
    distance[a] = (to % size + size - from % size) % size;
    from /= size;
    to /= size;
  }
  return distance;
}

std::uint32_t GroupPlaces::place_at(std::uint32_t place,
                                    const std::vector<std::uint32_t>& distance) const {
  const auto& axes = plan_.slots.front().mesh.axes();
  std::uint32_t index = 0, stride = 1;
  for (std::size_t a = axes.size(); a-- > 0;) {
    const auto size = static_cast<std::uint32_t>(axes[a].size);
    index += stride * ((place % size + distance[a]) % size);
    place /= size;
    stride *= size;
  }
  return index;
}

// Both members name the same group, each as it sees it.
std::optional<std::uint32_t> GroupPlaces::neighbours_like(std::size_t device, std::uint32_t pattern,
                                                          std::uint32_t turn) {
  const auto& mesh = plan_.slots[slot_of_[device]].mesh;
  std::vector<std::uint32_t> members;
  for (const auto& distance : patterns_[pattern].distances) {
    members.push_back(device_number(mesh.devices()[place_at(place_of_[device], distance)]));
  }
  const auto own = std::ranges::find(members, static_cast<std::uint32_t>(device));
  if (own == members.end()) return std::nullopt;
  const auto [entry, added] =
      neighbour_numbers_.try_emplace(members, static_cast<std::uint32_t>(groups_.size()));
  if (added) {
    RefinementInput::Group group;
    for (const std::uint32_t member : members) group.members.push_back({.device = member});
    groups_.push_back(std::move(group));
    group_pattern_.push_back(pattern);
    missing_.push_back(static_cast<std::uint32_t>(members.size()));
  }
  const auto position = static_cast<std::size_t>(own - members.begin());
  groups_[entry->second].members[position].turn = turn;
  --missing_[entry->second];
  return entry->second;
}

std::uint32_t GroupPlaces::make_group(std::uint32_t number, std::uint32_t place) {
  const Pattern& pattern = patterns_[number];
  const auto& axes = plan_.slots.front().mesh.axes();
  RefinementInput::Group group;
  for (const auto& [slot, spanned_key] : pattern.members) {
    std::uint64_t key = spanned_key;
    std::uint32_t index = 0, stride = 1;
    for (std::size_t a = axes.size(); a-- > 0;) {
      const auto size = static_cast<std::uint32_t>(axes[a].size);
      const auto own = place / stride % size;
      index += stride * (pattern.spanned[a] ? static_cast<std::uint32_t>(key % size) : own);
      if (pattern.spanned[a]) key /= size;
      stride *= size;
    }
    group.members.push_back({.device = device_number(plan_.slots[slot].mesh.devices()[index])});
  }
  groups_.push_back(std::move(group));
  group_pattern_.push_back(number);
  missing_.push_back(static_cast<std::uint32_t>(pattern.members.size()));
  return static_cast<std::uint32_t>(groups_.size() - 1);
}

std::vector<std::uint32_t> GroupPlaces::groups_like(std::size_t device, std::size_t like,
                                                    const ProgramGroups& groups) {
  auto& patterns = known_[like];
  if (patterns.empty()) {
    for (const auto& entry : groups.groups) patterns.push_back(pattern_of(like, entry));
  }
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t turn = 0; turn < patterns.size(); ++turn) {
    const Pattern& pattern = patterns_[patterns[turn]];
    if (!pattern.distances.empty()) {
      const auto number = neighbours_like(device, patterns[turn], turn);
      complete_ &= number.has_value();
      numbers.push_back(number.value_or(0));
      continue;
    }
    const std::pair key(patterns[turn], key_of(place_of_[device], pattern.spanned, false));
    const auto found = group_numbers_.find(key);
    const std::uint32_t number = found != group_numbers_.end()
                                     ? found->second
                                     : make_group(patterns[turn], place_of_[device]);
    if (found == group_numbers_.end()) group_numbers_.emplace(key, number);
    numbers.push_back(number);
    const auto position = pattern.position.find(
        key_of(place_of_[device], pattern.spanned, true) * plan_.slots.size() + slot_of_[device]);
    if (position == pattern.position.end()) {
      complete_ = false;
      continue;
    }
    groups_[number].members[position->second].turn = turn;
    --missing_[number];
  }
  return numbers;
}

std::optional<std::vector<RefinementInput::Group>> GroupPlaces::finish() {
  complete_ &= std::ranges::all_of(missing_, [](std::uint32_t missing) { return missing == 0; });
  if (!complete_) return std::nullopt;
  return std::move(groups_);
}

}  // namespace meshwright
