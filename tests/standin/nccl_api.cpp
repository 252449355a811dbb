#include <cstring>
#include <set>

#include "tests/standin/communicators.h"
#include "tests/standin/runtime.h"

namespace meshwright::standin {
namespace {

constexpr int kUsualBlocks = 32;  // where nobody asks for fewer

struct NcclObjects {
  std::map<const void*, std::unique_ptr<Member>> members;
  std::map<std::uint64_t, std::shared_ptr<NcclGroupState>> groups;  // by what their id says
  std::uint64_t ids = 0;
};
NcclObjects& objects_of_nccl() {
  static NcclObjects all;
  return all;
}

// Of a thread between ncclGroupStart and ncclGroupEnd.
struct OpenGroup {
  int depth = 0;
  struct Call {
    Member* member;
    Stream* stream;
    Part part;
  };
  std::vector<Call> calls;
  std::vector<Member*> made;
};
OpenGroup& open_group() {
  thread_local OpenGroup group;
  return group;
}

Member* member_of(ncclComm_t handle) {
  const auto found = objects_of_nccl().members.find(handle);
  return found == objects_of_nccl().members.end() ? nullptr : found->second.get();
}

ncclResult_t refuse_nccl(Machine& machine, const std::string& function, const std::string& why,
                         ncclResult_t result = ncclInvalidArgument) {
  machine.add_fault(function + ": " + why);
  return result;
}

template <class Body>
ncclResult_t nccl_call(const char* function, Body body) {
  Machine& machine = Machine::the();
  Lock lock = machine.lock();
  return machine.begins(function) ? body(machine, lock) : ncclSystemError;
}

std::uint64_t number_in(const ncclUniqueId& id) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof(number));
  return number;
}

// None: the rank cannot be one of that group.
Member* add_member(Machine& machine, const std::string& function, int ranks, const ncclUniqueId& id,
                   int rank, bool blocking, int blocks) {
  const std::uint64_t number = number_in(id);
  auto& group = objects_of_nccl().groups[number];
  if (!group) {
    group = std::make_shared<NcclGroupState>();
    group->number = static_cast<int>(number);
    group->members.resize(static_cast<std::size_t>(ranks));
  }
  auto& members = group->members;
  const auto place = static_cast<std::size_t>(rank);
  if (rank < 0 || place >= members.size() || static_cast<int>(members.size()) != ranks ||
      members[place] != nullptr) {
    refuse_nccl(machine, function,
                "rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                    " is there already, or others said another number of ranks");
    return nullptr;
  }
  for (const Member* other : members) {
    if (other == nullptr || other->device != current_device()) continue;
    refuse_nccl(machine, function, "device " + std::to_string(current_device()) + " is two ranks");
    return nullptr;
  }
  auto made = std::make_unique<Member>();
  *made = {.group = group,
           .rank = rank,
           .device = current_device(),
           .blocking = blocking,
           .blocks = blocks};
  Member* const member = members[place] = made.get();
  objects_of_nccl().members.emplace(member, std::move(made));
  machine.moved();
  return member;
}

ncclResult_t wait_for_ranks(Machine& machine, Lock& lock, Member& member) {
  const bool there = machine.run_until(lock, member.device, nullptr,
                                       [&] { return member.group->complete() || member.aborted; });
  return there && !member.aborted ? ncclSuccess : ncclRemoteError;
}

ncclResult_t make_member(const char* function, ncclComm_t* handle, int ranks,
                         const ncclUniqueId& id, int rank, bool blocking, int blocks) {
  return nccl_call(function, [&](Machine& machine, Lock& lock) {
    Member* const made = add_member(machine, function, ranks, id, rank, blocking, blocks);
    if (made == nullptr) return ncclInvalidUsage;
    *handle = reinterpret_cast<ncclComm_t>(made);
    if (open_group().depth > 0) {
      open_group().made.push_back(made);
      return blocking ? ncclSuccess : ncclInProgress;
    }
    if (!blocking) return made->group->complete() ? ncclSuccess : ncclInProgress;
    return wait_for_ranks(machine, lock, *made);
  });
}

// Puts calls into their streams, those of one member as one.
ncclResult_t put_calls(Machine& machine, const std::vector<OpenGroup::Call>& calls) {
  std::map<Member*, std::shared_ptr<NcclLaunch>> launches;
  std::vector<std::pair<Stream*, std::shared_ptr<NcclLaunch>>> in_order;
  for (const auto& call : calls) {
    auto& launch = launches[call.member];
    if (!launch) {
      launch = std::make_shared<NcclLaunch>();
      launch->member = call.member;
      in_order.emplace_back(call.stream, launch);
    }
    for (const auto& [stream, other] : in_order) {
      if (other == launch && stream != call.stream) {
        return refuse_nccl(machine, "ncclGroupEnd", "calls of one communicator in two streams",
                           ncclInvalidUsage);
      }
    }
    launch->parts.push_back(call.part);
  }
  bool later = false;
  for (const auto& [stream, launch] : in_order) {
    if (!stream->capture) begin_launch(*launch);
    launch->member->to_put.emplace_back(stream, launch);
    if (!launch->member->blocking && machine.draw() % 2 == 0) {
      later = true;
      continue;
    }
    put_waiting(machine, *launch->member);
    machine.run_some(stream->device);
  }
  return later ? ncclInProgress : ncclSuccess;
}

ncclResult_t enqueue(const char* function, const Part& part, ncclComm_t handle,
                     cudaStream_t stream_handle) {
  return nccl_call(function, [&](Machine& machine, Lock&) {
    Member* const member = member_of(handle);
    if (member == nullptr || member->destroyed || member->aborted) {
      return refuse_nccl(machine, function, "no such communicator");
    }
    if (!member->group->complete() || !member->to_put.empty()) {
      return refuse_nccl(machine, function, "the communicator is still at its last call",
                         ncclInvalidUsage);
    }
    Stream* const stream = machine.stream(stream_handle, member->device);
    if (stream == nullptr || stream->device != member->device) {
      return refuse_nccl(machine, function, "no stream of the communicator's device");
    }
    if (machine.device(member->device).failure) return ncclUnhandledCudaError;
    if (const auto result = check_part(machine, function, *member, part); result != ncclSuccess) {
      return result;
    }
    if (open_group().depth > 0) {
      open_group().calls.push_back({member, stream, part});
      return ncclSuccess;
    }
    return put_calls(machine, {{member, stream, part}});
  });
}

}  // namespace

void forget_communicators() {
  Machine& machine = Machine::the();
  const Lock lock = machine.lock();
  objects_of_nccl().members.clear();
  objects_of_nccl().groups.clear();
  open_group() = {};
}

}  // namespace meshwright::standin

using namespace meshwright::standin;

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "internal error";
  }
}
const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string text;
  const auto all = faults();
  text = all.empty() ? "" : all.back();
  return text.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return nccl_call("ncclGetUniqueId", [&](Machine&, Lock&) {
    std::memset(id->internal, 0, sizeof(id->internal));
    const std::uint64_t number = ++objects_of_nccl().ids;
    std::memcpy(id->internal, &number, sizeof(number));
    return ncclSuccess;
  });
}
ncclResult_t ncclCommInitRank(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank) {
  return make_member("ncclCommInitRank", handle, ranks, id, rank, true, kUsualBlocks);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const bool blocking = config == nullptr || config->blocking != 0;
  const bool chosen = config != nullptr && config->maxCTAs != NCCL_CONFIG_UNDEF_INT;
  return make_member("ncclCommInitRankConfig", handle, ranks, id, rank, blocking,
                     chosen ? config->maxCTAs : kUsualBlocks);
}
ncclResult_t ncclCommInitAll(ncclComm_t* handles, int ranks, const int* devices) {
  return nccl_call("ncclCommInitAll", [&](Machine& machine, Lock&) {
    ncclUniqueId id{};
    const std::uint64_t number = ++objects_of_nccl().ids;
    std::memcpy(id.internal, &number, sizeof(number));
    const int before = current_device();
    for (int rank = 0; rank < ranks; ++rank) {
      current_device() = devices == nullptr ? rank : devices[rank];
      Member* const made =
          machine.has_device(current_device())
              ? add_member(machine, "ncclCommInitAll", ranks, id, rank, true, kUsualBlocks)
              : nullptr;
      if (made == nullptr) {
        current_device() = before;
        return ncclInvalidUsage;
      }
      handles[rank] = reinterpret_cast<ncclComm_t>(made);
    }
    current_device() = before;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* result) {
  return nccl_call("ncclCommGetAsyncError", [&](Machine& machine, Lock& lock) {
    Member* const member = member_of(handle);
    if (member == nullptr) return refuse_nccl(machine, "ncclCommGetAsyncError", "no communicator");
    put_waiting(machine, *member);
    const bool failed = machine.device(member->device).failure.has_value();
    const bool there = member->group->complete() && (!member->finalized || member->unfinished == 0);
    if (!failed && !there) machine.poll(lock, member->device);
    *result = failed ? ncclUnhandledCudaError : (there ? ncclSuccess : ncclInProgress);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return nccl_call("ncclCommAbort", [&](Machine& machine, Lock&) {
    Member* const member = member_of(handle);
    if (member == nullptr || member->destroyed) {
      return refuse_nccl(machine, "ncclCommAbort", "no such communicator");
    }
    member->aborted = member->destroyed = true;
    member->to_put.clear();
    withdraw(*member);
    machine.moved();
    return ncclSuccess;
  });
}
ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  return nccl_call("ncclCommFinalize", [&](Machine& machine, Lock&) {
    Member* const member = member_of(handle);
    if (member == nullptr || member->destroyed) {
      return refuse_nccl(machine, "ncclCommFinalize", "no such communicator");
    }
    member->finalized = true;
    return member->unfinished == 0 ? ncclSuccess : ncclInProgress;
  });
}
// Whoever destroys one that still has something to do, aborts it.
ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return nccl_call("ncclCommDestroy", [&](Machine& machine, Lock&) {
    Member* const member = member_of(handle);
    if (member == nullptr || member->destroyed) {
      return refuse_nccl(machine, "ncclCommDestroy", "no such communicator");
    }
    if (member->unfinished > 0 && !machine.device(member->device).failure) {
      machine.add_fault("ncclCommDestroy: " + std::to_string(member->unfinished) +
                        " transfers are not over");
    }
    member->destroyed = true;
    if (member->unfinished > 0) {
      member->aborted = true;
      withdraw(*member);
      machine.moved();
    }
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(const ncclComm_t handle, int* count) {
  return nccl_call("ncclCommCount", [&](Machine& machine, Lock&) {
    Member* const member = member_of(handle);
    if (member == nullptr) return refuse_nccl(machine, "ncclCommCount", "no such communicator");
    *count = static_cast<int>(member->group->members.size());
    return ncclSuccess;
  });
}
ncclResult_t ncclCommUserRank(const ncclComm_t handle, int* rank) {
  return nccl_call("ncclCommUserRank", [&](Machine& machine, Lock&) {
    Member* const member = member_of(handle);
    if (member == nullptr) return refuse_nccl(machine, "ncclCommUserRank", "no such communicator");
    *rank = member->rank;
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupStart() {
  return nccl_call("ncclGroupStart", [](Machine&, Lock&) {
    ++open_group().depth;
    return ncclSuccess;
  });
}
ncclResult_t ncclGroupEnd() {
  return nccl_call("ncclGroupEnd", [](Machine& machine, Lock& lock) {
    if (open_group().depth == 0) {
      return refuse_nccl(machine, "ncclGroupEnd", "without ncclGroupStart", ncclInvalidUsage);
    }
    if (--open_group().depth > 0) return ncclSuccess;
    const OpenGroup ended = std::move(open_group());
    open_group() = {};
    for (Member* made : ended.made) {
      if (!made->blocking) continue;
      if (const auto result = wait_for_ranks(machine, lock, *made); result != ncclSuccess) {
        return result;
      }
    }
    return put_calls(machine, ended.calls);
  });
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t member, cudaStream_t stream) {
  return enqueue("ncclAllReduce", {PartKind::AllReduce, from, to, count, type, reduction, 0},
                 member, stream);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t member, cudaStream_t stream) {
  return enqueue("ncclReduceScatter",
                 {PartKind::ReduceScatter, from, to, count, type, reduction, 0}, member, stream);
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t member, cudaStream_t stream) {
  return enqueue("ncclAllGather", {PartKind::AllGather, from, to, count, type, ncclSum, 0}, member,
                 stream);
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t member, cudaStream_t stream) {
  return enqueue("ncclBroadcast", {PartKind::Broadcast, from, to, count, type, ncclSum, root},
                 member, stream);
}
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                        ncclRedOp_t reduction, int root, ncclComm_t member, cudaStream_t stream) {
  return enqueue("ncclReduce", {PartKind::Reduce, from, to, count, type, reduction, root}, member,
                 stream);
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t member, cudaStream_t stream) {
  return enqueue("ncclSend", {PartKind::Send, from, nullptr, count, type, ncclSum, peer}, member,
                 stream);
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t member,
                      cudaStream_t stream) {
  return enqueue("ncclRecv", {PartKind::Receive, nullptr, to, count, type, ncclSum, peer}, member,
                 stream);
}
