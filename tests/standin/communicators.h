#pragma once

#include <nccl.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/standin/machine.h"

// NCCL's groups of devices, whose ranks are threads of this process. A transfer runs when it is the
// first of its stream on every rank that takes part.
namespace meshwright::standin {

enum class PartKind { AllReduce, ReduceScatter, AllGather, Broadcast, Reduce, Send, Receive };

// What one rank brings to a transfer.
struct Part {
  PartKind kind = PartKind::AllReduce;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;  // as the call has it
  ncclDataType_t type = ncclFloat;
  ncclRedOp_t reduction = ncclSum;
  int other = 0;  // the root, or whom it is sent to or received from
};

struct Member;

// Parts of one call, or of all calls of a group, which run together.
struct NcclLaunch {
  Member* member = nullptr;
  std::vector<Part> parts;
  std::vector<std::int64_t> numbers;  // of the parts: which collective of the group it is
  std::size_t missing = 0;            // parts that are not over
};

struct NcclGroupState {
  int number = 0;
  std::vector<Member*> members;  // by rank; null: has not come
  // Who has come to a collective, by its number and rank; who sends what, by sender and receiver.
  struct Arrival {
    std::shared_ptr<NcclLaunch> launch;
    Part part;
  };
  std::map<std::int64_t, std::map<int, Arrival>> meetings;
  std::map<std::pair<int, int>, std::vector<Arrival>> sends, receives;
  bool complete() const;
};

struct Member {
  std::shared_ptr<NcclGroupState> group;
  int rank = 0, device = 0;
  bool blocking = true;
  int blocks = 1;  // of its kernels, at most
  bool aborted = false, destroyed = false;
  bool finalized = false;        // it is at its last call until all that it was given is over
  std::int64_t collectives = 0;  // calls so far
  std::int64_t unfinished = 0;   // launches
  // Where a call does not block, what it puts into streams may come only when it is asked whether
  // it has.
  std::vector<std::pair<Stream*, std::shared_ptr<NcclLaunch>>> to_put;
};

std::size_t bytes_of(ncclDataType_t type);
const char* to_text(PartKind kind);

// All need the machine's lock.

// Whether NCCL would take what a member brings: memory, alignment, ranks; a fault if not.
ncclResult_t check_part(Machine& machine, const char* function, const Member& member,
                        const Part& part);
// It comes to its parts' turns: those of a graph whenever that is launched.
void begin_launch(NcclLaunch& launch);
void put_launch(Machine& machine, Stream& stream, const std::shared_ptr<NcclLaunch>& launch);
void put_waiting(Machine& machine, Member& member);
// Takes back what a member has brought: the others wait for it in vain.
void withdraw(Member& member);
// Does what the ranks of a collective have brought.
void run_collective(Machine& machine, const NcclGroupState& group,
                    const std::map<int, NcclGroupState::Arrival>& arrived);
// Why ranks cannot do this together; empty: they can.
std::string difference_of(const std::map<int, NcclGroupState::Arrival>& arrived);

// Those that are left from before a restart.
void forget_communicators();

}  // namespace meshwright::standin
