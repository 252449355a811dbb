#include "tests/standin/communicators.h"

namespace meshwright::standin {
namespace {

// Elements that a rank reads and writes.
std::pair<std::size_t, std::size_t> extents_of(const Part& part, const Member& member) {
  const std::size_t ranks = member.group->members.size(), count = part.count;
  switch (part.kind) {
    case PartKind::ReduceScatter:
      return {count * ranks, count};
    case PartKind::AllGather:
      return {count, count * ranks};
    case PartKind::Broadcast:
      return {member.rank == part.other ? count : 0, count};
    case PartKind::Reduce:
      return {count, member.rank == part.other ? count : 0};
    case PartKind::Send:
      return {count, 0};
    case PartKind::Receive:
      return {0, count};
    case PartKind::AllReduce:
      break;
  }
  return {count, count};
}

// In place is where NCCL says it is; any other overlap is none.
bool overlaps_wrongly(const Part& part, const Member& member, std::size_t read,
                      std::size_t written) {
  if (read == 0 || written == 0) return false;
  const auto* const from = static_cast<const char*>(part.from);
  const auto* const to = static_cast<const char*>(part.to);
  const std::size_t own = static_cast<std::size_t>(member.rank) * part.count * bytes_of(part.type);
  if (part.kind == PartKind::ReduceScatter && to == from + own) return false;
  if (part.kind == PartKind::AllGather && from == to + own) return false;
  if (part.kind != PartKind::ReduceScatter && part.kind != PartKind::AllGather && from == to) {
    return false;
  }
  const std::size_t bytes = bytes_of(part.type);
  return from < to + written * bytes && to < from + read * bytes;
}

ncclResult_t refused(Machine& machine, const std::string& function, const std::string& why) {
  machine.add_fault(function + ": " + why);
  return ncclInvalidArgument;
}

}  // namespace

ncclResult_t check_part(Machine& machine, const char* function, const Member& member,
                        const Part& part) {
  const auto [read, written] = extents_of(part, member);
  const std::size_t bytes = bytes_of(part.type);
  for (const auto& [data, count] : {std::pair(part.from, read), {part.to, written}}) {
    if (count == 0) continue;
    if (!machine.check_range(function, data, count * bytes, member.device)) {
      return ncclInvalidArgument;
    }
    if (reinterpret_cast<std::uintptr_t>(data) % bytes != 0) {
      return refused(machine, function, "memory that is not aligned to its type");
    }
  }
  const int ranks = static_cast<int>(member.group->members.size());
  if (part.other < 0 || part.other >= ranks) {
    return refused(machine, function,
                   "rank " + std::to_string(part.other) + " of " + std::to_string(ranks));
  }
  if (overlaps_wrongly(part, member, read, written)) {
    return refused(machine, function, "what is read overlaps what is written");
  }
  return ncclSuccess;
}

}  // namespace meshwright::standin
