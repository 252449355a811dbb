#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulator/engine/refinement.h"
#include "simulator/plan/plan.h"
#include "simulator/program/program.h"

namespace meshwright {

// The groups that one program transfers in, in the order of their first transfer. Sends and
// receives of two devices are another group than their collectives.
struct ProgramGroups {
  struct Entry {
    bool pair = false;
    std::vector<DeviceId> members;
    std::vector<TransferKind> families;  // one kind for each way of crossing links
  };
  std::vector<Entry> groups;
  std::vector<std::uint32_t> of_transfer;
};
ProgramGroups groups_of(const Program& program);
// Kinds that cross links alike have the same family.
TransferKind family_of(TransferKind kind);

// Finds the groups of all devices from those of some: a group's members are named by slot and
// coordinates, and along the axes in which all members agree with the device they agree with any
// other at its own coordinate. Two devices of a slot that send and receive are named by how far
// they stand from the device along each axis, round its end: neighbours in a ring.
class GroupPlaces {
 public:
  explicit GroupPlaces(const Plan& plan);

  // Whether slots have the same mesh.
  bool is_uniform() const { return uniform_; }
  // Devices are numbered in their order.
  std::size_t device_count() const { return slot_of_.size(); }
  std::pair<std::uint32_t, std::uint32_t> slot_and_place(std::size_t device) const {
    return {slot_of_[device], place_of_[device]};
  }

  // The groups of `like`, whose program has `groups`, as `device` has them: their numbers. A member
  // list is made when a group is first met.
  std::vector<std::uint32_t> groups_like(std::size_t device, std::size_t like,
                                         const ProgramGroups& groups);
  // The groups met so far, with their turns. None: some device is not in its group.
  std::optional<std::vector<RefinementInput::Group>> finish();
  // Of the transfers of group `group`.
  const std::vector<TransferKind>& families(std::size_t group) const {
    return families_[group_pattern_[group]];
  }

 private:
  struct Pattern {
    std::vector<bool> spanned;                                     // by axis
    std::vector<std::pair<std::uint32_t, std::uint64_t>> members;  // slot and spanned coordinates
    std::unordered_map<std::uint64_t, std::uint32_t> position;     // of a member
    // Of neighbours: how far the members stand, by axis.
    std::vector<std::vector<std::uint32_t>> distances = {};
  };
  // The place of a member of neighbours.
  std::uint32_t place_at(std::uint32_t place, const std::vector<std::uint32_t>& distance) const;
  std::vector<std::uint32_t> distance_of(std::uint32_t from, std::uint32_t to) const;
  std::optional<std::uint32_t> neighbours_like(std::size_t device, std::uint32_t pattern,
                                               std::uint32_t turn);
  std::uint32_t pattern_of(std::size_t device, const ProgramGroups::Entry& entry);
  // The coordinates along axes with spanned[a] == which, as one number.
  std::uint64_t key_of(std::uint32_t place, const std::vector<bool>& spanned, bool which) const;
  std::uint32_t make_group(std::uint32_t pattern, std::uint32_t place);
  std::uint32_t device_number(DeviceId device) const { return number_of_[device.index()]; }

  const Plan& plan_;
  bool uniform_ = true;
  std::vector<std::uint32_t> slot_of_, place_of_;  // by device number
  std::vector<std::uint32_t> number_of_;           // by device
  std::map<std::vector<std::uint64_t>, std::uint32_t> pattern_numbers_;
  std::vector<Pattern> patterns_;
  std::vector<std::vector<TransferKind>> families_;  // by pattern
  // By device number that groups are taken from: the pattern of each of its groups.
  std::unordered_map<std::size_t, std::vector<std::uint32_t>> known_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> group_numbers_;
  std::map<std::vector<std::uint32_t>, std::uint32_t> neighbour_numbers_;  // by devices
  std::vector<RefinementInput::Group> groups_;
  std::vector<std::uint32_t> group_pattern_;
  std::vector<std::uint32_t> missing_;  // by group: members that have not named it yet
  bool complete_ = true;
};

}  // namespace meshwright
