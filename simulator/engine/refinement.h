#pragma once

#include <cstdint>
#include <vector>

namespace meshwright {

// Devices, the groups they transfer in and the links those cross, with colours to start from.
struct RefinementInput {
  struct Member {
    std::uint32_t device = 0;
    std::uint32_t turn = 0;  // which of the device's groups this is
  };
  struct Crossing {
    std::uint32_t link = 0;
    std::uint32_t family = 0;  // of transfers of the group that cross it so
    double share = 0;
  };
  struct Group {
    std::vector<Member> members;  // in the group's order
    std::vector<Crossing> crossings;
  };
  std::vector<std::uint32_t> device_colors;
  std::vector<std::vector<std::uint32_t>> device_groups;  // by device and turn
  std::vector<Group> groups;
  std::vector<std::uint32_t> link_colors;
};

// Colours are numbered from 0 in the order in which their first device, group or link stands.
struct Coloring {
  std::vector<std::uint32_t> devices, groups, links;
  std::uint32_t device_count = 0, group_count = 0, link_count = 0;  // of colours
};

// The coarsest colours, no coarser than those to start from, such that devices of one colour have
// groups of the same colours in the same turns, groups of one colour have members of the same
// colours in the same places and cross links of the same colours alike, and links of one colour are
// crossed by groups of the same colours alike. Whatever is computed from neighbours only, as times
// are, is then the same for all of one colour (colour refinement: Paige, Tarjan, "Three partition
// refinement algorithms", SIAM J. Comput. 1987; here round by round until nothing splits).
Coloring refine(const RefinementInput& input);

}  // namespace meshwright
