#include "simulator/engine/meetings.h"

#include <algorithm>
#include <map>

namespace meshwright {
namespace {

struct SameGroupLess {
  bool operator()(const Transfer* a, const Transfer* b) const {
    if (is_pair(a->kind) != is_pair(b->kind)) return is_pair(b->kind);
    return a->group < b->group;
  }
};

// Numbers groups in the order they are first seen. The transfers must outlive this.
class GroupNumbers {
 public:
  std::size_t number_of(const Transfer& transfer) {
    return numbers_.try_emplace(&transfer, numbers_.size()).first->second;
  }
  std::size_t count() const { return numbers_.size(); }

 private:
  std::map<const Transfer*, std::size_t, SameGroupLess> numbers_;
};

}  // namespace

Meetings find_meetings(std::span<const Program> programs) {
  Meetings meetings;
  GroupNumbers groups;
  std::vector<std::vector<std::uint32_t>> of_group;
  std::vector<std::size_t> met;  // by group: how often the program at hand met it so far
  for (const Program& program : programs) {
    std::vector<std::size_t> group_of_transfer;
    for (const Transfer& transfer : program.transfers) {
      group_of_transfer.push_back(groups.number_of(transfer));
    }
    of_group.resize(groups.count());
    met.resize(groups.count());
    auto& own = meetings.of_program.emplace_back();
    for (const Task& task : program.tasks) {
      if (task.kind != TaskKind::Transfer) continue;
      const std::size_t group = group_of_transfer[task.what];
      const std::size_t turn = met[group]++;
      if (turn == of_group[group].size()) {
        of_group[group].push_back(static_cast<std::uint32_t>(meetings.members.size()));
        meetings.members.push_back(static_cast<std::uint32_t>(program.transfer(task).group.size()));
      }
      own.push_back(of_group[group][turn]);
    }
    // Only what this program touched: clearing all would be quadratic in devices.
    for (const std::size_t group : group_of_transfer) met[group] = 0;
  }
  return meetings;
}

}  // namespace meshwright
