#include "simulator/program/joint_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <deque>
#include <utility>

#include "simulator/program/group_orders.h"

namespace meshwright {

// Runs the lists side by side: a collective waits for all of its group, a receive for its send.
class JointLists {
 public:
  explicit JointLists(const JointCheck& check)
      : check_(check), meetings_(check.groups_.size()), sent_(check.groups_.size()) {}

  std::vector<std::string> run() {
    for (const auto& [device, list] : check_.lists_) ready_.push_back(device);
    while (!ready_.empty()) {
      const DeviceId device = ready_.front();
      ready_.pop_front();
      while (step(device)) {
      }
    }
    for (const auto& [device, list] : check_.lists_) {
      if (devices_[device].next < list.size())
        problems_.push_back(place_of(device) + " waits for ever");
    }
    for (std::size_t g = 0; g < sent_.size(); ++g) {
      if (sent_[g].empty()) continue;
      problems_.push_back(fmt::format("device {} sends {} more than device {} receives",
                                      check_.groups_[g].members[0].index(), sent_[g].size(),
                                      check_.groups_[g].members[1].index()));
    }
    return std::move(problems_);
  }

 private:
  struct Place {
    std::size_t next = 0;  // of the device's list
    bool waits = false;    // for the others of a collective
  };
  struct Meeting {
    std::vector<DeviceId> arrived;
    std::uint64_t work = 0;  // of who came first
  };

  // Whether the device has gone on by itself.
  bool step(DeviceId device) {
    const auto& list = check_.lists_.at(device);
    if (devices_[device].next == list.size()) return false;
    const JointCheck::Entry& entry = list[devices_[device].next];
    if (entry.kind == TransferKind::Send) return send(device, entry);
    if (entry.kind == TransferKind::Receive) return receive(device, entry);
    meet(device, entry);
    return false;
  }

  bool send(DeviceId device, const JointCheck::Entry& entry) {
    sent_[entry.group].push_back(entry.work);
    ++devices_[device].next;
    ready_.push_back(check_.groups_[entry.group].members[1]);
    return true;
  }

  bool receive(DeviceId device, const JointCheck::Entry& entry) {
    auto& sent = sent_[entry.group];
    if (sent.empty()) return false;
    if (sent.front() != entry.work) {
      problems_.push_back(place_of(device) + " is not what is sent");
    }
    sent.pop_front();
    ++devices_[device].next;
    return true;
  }

  // Whoever comes last has all go on.
  void meet(DeviceId device, const JointCheck::Entry& entry) {
    Meeting& meeting = meetings_[entry.group];
    if (std::exchange(devices_[device].waits, true)) return;
    if (meeting.arrived.empty()) meeting.work = entry.work;
    if (meeting.work != entry.work) {
      problems_.push_back(fmt::format("{} is another one than that of device {}", place_of(device),
                                      meeting.arrived[0].index()));
    }
    meeting.arrived.push_back(device);
    if (meeting.arrived.size() < check_.groups_[entry.group].members.size()) return;
    for (const DeviceId member : meeting.arrived) {
      devices_[member].waits = false;
      ++devices_[member].next;
      ready_.push_back(member);
    }
    meeting.arrived.clear();
  }

  std::string place_of(DeviceId device) {
    const std::size_t at = devices_[device].next;
    const JointCheck::Entry& entry = check_.lists_.at(device)[at];
    std::vector<std::size_t> members;
    for (const DeviceId member : check_.groups_[entry.group].members) {
      members.push_back(member.index());
    }
    return fmt::format("device {}: transfer {} ({} among [{}])", device.index(), at,
                       to_text(entry.kind), fmt::join(members, ","));
  }

  const JointCheck& check_;
  std::map<DeviceId, Place> devices_;
  std::vector<Meeting> meetings_;                // by group
  std::vector<std::deque<std::uint64_t>> sent_;  // by group
  std::deque<DeviceId> ready_;
  std::vector<std::string> problems_;
};

void JointCheck::add(const Program& program) {
  std::vector<Entry>& list = lists_[program.device];
  std::vector<std::uint64_t> hashes;
  for (const Transfer& transfer : program.transfers) {
    hashes.push_back(work_hash(transfer, program.precision));
  }
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::Transfer) continue;
    const Transfer& transfer = program.transfer(task);
    const bool pair = is_pair(transfer.kind);
    const auto [number, added] =
        numbers_.try_emplace({pair, transfer.group}, static_cast<std::uint32_t>(groups_.size()));
    if (added) groups_.push_back({pair, transfer.group});
    list.push_back({number->second, transfer.kind, hashes[task.what]});
  }
  transfers_ += static_cast<std::int64_t>(list.size());
}

std::vector<std::string> JointCheck::problems() const {
  std::vector<std::string> found;
  for (const Group& group : groups_) {
    for (const DeviceId member : group.members) {
      if (lists_.contains(member)) continue;
      found.push_back(fmt::format("device {} has no program", member.index()));
    }
  }
  if (!found.empty()) return found;
  return JointLists(*this).run();
}

}  // namespace meshwright
