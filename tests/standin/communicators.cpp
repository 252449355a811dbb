#include "tests/standin/communicators.h"

#include <algorithm>
#include <cstring>

namespace meshwright::standin {
namespace {

using Arrival = NcclGroupState::Arrival;

void finish_part(const Arrival& arrival) {
  if (--arrival.launch->missing == 0) --arrival.launch->member->unfinished;
}

std::string text_of(const NcclGroupState& group, const Part& part, int rank) {
  return "communicator " + std::to_string(group.number) + ", rank " + std::to_string(rank) + " " +
         to_text(part.kind) + " of " + std::to_string(part.count);
}

void run_send(Machine& machine, NcclGroupState& group, std::pair<int, int> way) {
  auto &sent = group.sends[way], &received = group.receives[way];
  while (!sent.empty() && !received.empty()) {
    const Arrival from = sent.front(), to = received.front();
    sent.erase(sent.begin());
    received.erase(received.begin());
    if (from.part.count != to.part.count || from.part.type != to.part.type) {
      machine.fail(to.launch->member->device, text_of(group, to.part, way.second) + " for " +
                                                  text_of(group, from.part, way.first) +
                                                  ", or of other types");
      return;
    }
    machine.open(from.launch->member->device);
    machine.open(to.launch->member->device);
    std::memcpy(to.part.to, from.part.from, to.part.count * bytes_of(to.part.type));
    finish_part(from);
    finish_part(to);
  }
}

void arrive(Machine& machine, const std::shared_ptr<NcclLaunch>& launch, std::size_t i) {
  NcclGroupState& group = *launch->member->group;
  const Part& part = launch->parts[i];
  const int rank = launch->member->rank;
  if (part.kind == PartKind::Send || part.kind == PartKind::Receive) {
    const bool sends = part.kind == PartKind::Send;
    const auto way = sends ? std::pair(rank, part.other) : std::pair(part.other, rank);
    (sends ? group.sends : group.receives)[way].push_back({launch, part});
    return run_send(machine, group, way);
  }
  auto& meeting = group.meetings[launch->numbers[i]];
  meeting.emplace(rank, Arrival{launch, part});
  if (meeting.size() < group.members.size()) return;
  if (const std::string why = difference_of(meeting); !why.empty()) {
    for (const auto& [other, arrival] : meeting) {
      machine.fail(arrival.launch->member->device,
                   "communicator " + std::to_string(group.number) + ": " + why);
    }
    return;
  }
  for (const auto& [other, arrival] : meeting) machine.open(arrival.launch->member->device);
  run_collective(machine, group, meeting);
  for (const auto& [other, arrival] : meeting) finish_part(arrival);
  group.meetings.erase(launch->numbers[i]);
}

Operation launch_operation(Machine& machine, const std::shared_ptr<NcclLaunch>& launch) {
  const Member* const member = launch->member;
  return {.name = text_of(*member->group, launch->parts.front(), member->rank),
          .start =
              [&machine, launch] {
                if (launch->member->aborted) return;
                for (std::size_t i = 0; i < launch->parts.size(); ++i) arrive(machine, launch, i);
              },
          .over = [launch] { return launch->missing == 0 || launch->member->aborted; },
          .is_transfer = true,
          .blocks = member->blocks};
}

}  // namespace

bool NcclGroupState::complete() const {
  return std::none_of(members.begin(), members.end(), [](Member* m) { return m == nullptr; });
}

const char* to_text(PartKind kind) {
  switch (kind) {
    case PartKind::AllReduce:
      return "all-reduce";
    case PartKind::ReduceScatter:
      return "reduce-scatter";
    case PartKind::AllGather:
      return "all-gather";
    case PartKind::Broadcast:
      return "broadcast";
    case PartKind::Reduce:
      return "reduce";
    case PartKind::Send:
      return "send";
    case PartKind::Receive:
      return "receive";
  }
  return "";
}

std::string difference_of(const std::map<int, Arrival>& arrived) {
  const Part& first = arrived.begin()->second.part;
  for (const auto& [rank, arrival] : arrived) {
    const Part& part = arrival.part;
    const auto differs = [&](const std::string& what) {
      return "rank " + std::to_string(arrived.begin()->first) + " and rank " +
             std::to_string(rank) + " differ in " + what;
    };
    if (part.kind != first.kind) return differs("what they do");
    if (part.count != first.count) {
      return differs("how much: " + std::to_string(first.count) + " and " +
                     std::to_string(part.count));
    }
    if (part.type != first.type) return differs("type");
    if (part.reduction != first.reduction) return differs("reduction");
    if (part.other != first.other) return differs("root");
  }
  return "";
}

void begin_launch(NcclLaunch& launch) {
  for (const Part& part : launch.parts) {
    const bool pair = part.kind == PartKind::Send || part.kind == PartKind::Receive;
    launch.numbers.push_back(pair ? -1 : launch.member->collectives++);
  }
  launch.missing = launch.parts.size();
  ++launch.member->unfinished;
}

void put_launch(Machine& machine, Stream& stream, const std::shared_ptr<NcclLaunch>& launch) {
  if (!stream.capture) return machine.put(stream, launch_operation(machine, launch));
  machine.add_node(stream, [&machine, launch] {
    const auto again = std::make_shared<NcclLaunch>(*launch);
    begin_launch(*again);
    return launch_operation(machine, again);
  });
}

void withdraw(Member& member) {
  const auto is_its = [&](const Arrival& arrival) { return arrival.launch->member == &member; };
  for (auto& [number, meeting] : member.group->meetings) meeting.erase(member.rank);
  for (auto* queues : {&member.group->sends, &member.group->receives}) {
    for (auto& [way, queue] : *queues) std::erase_if(queue, is_its);
  }
}

void put_waiting(Machine& machine, Member& member) {
  for (const auto& [stream, launch] : member.to_put) put_launch(machine, *stream, launch);
  member.to_put.clear();
}

}  // namespace meshwright::standin
