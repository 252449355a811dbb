#include "executor/cuda/nccl_group.h"

#include "executor/cuda/status.h"

namespace meshwright::cuda {

NcclGroup::NcclGroup(std::vector<int> devices)
    : devices_(std::move(devices)), members_(devices_.size()) {
  check(ncclCommInitAll(members_.data(), static_cast<int>(devices_.size()), devices_.data()),
        "ncclCommInitAll");
}

NcclGroup::~NcclGroup() {
  for (const ncclComm_t member : members_) ncclCommDestroy(member);
}

NcclTransfer::NcclTransfer(std::shared_ptr<const NcclGroup> group, TransferKind kind,
                           std::int64_t bytes)
    : group_(std::move(group)), kind_(kind), count_(static_cast<std::size_t>(bytes) / 4) {
  for (const int device : group_->devices()) {
    check(cudaSetDevice(device), "cudaSetDevice");
    members_.push_back(std::make_unique<Member>(static_cast<std::size_t>(bytes)));
    check(cudaMemset(members_.back()->range.data(), 0, static_cast<std::size_t>(bytes)),
          "cudaMemset");
  }
  for (const int device : group_->devices()) {
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
}

double NcclTransfer::seconds(std::int64_t count) {
  const Member& first = *members_.front();
  run_once();  // brings the members together
  check(cudaSetDevice(group_->devices().front()), "cudaSetDevice");
  first.start.record(first.stream.get());
  for (std::int64_t i = 0; i < count; ++i) run_once();
  check(cudaSetDevice(group_->devices().front()), "cudaSetDevice");
  first.stop.record(first.stream.get());
  wait();
  const double time = first.stop.seconds_since(first.start);
  return kind_ == TransferKind::Send ? time / 2 : time;
}

void NcclTransfer::wait() {
  for (const auto& member : members_) member->stream.synchronize();
}

void NcclTransfer::run_once() {
  if (kind_ != TransferKind::Send) return run_collective();
  // There and back: two transfers, one way each.
  send(0, 1);
  send(1, 0);
}

void NcclTransfer::run_collective() {
  check(ncclGroupStart(), "ncclGroupStart");
  for (std::size_t place = 0; place < members_.size(); ++place) run_member(place);
  check(ncclGroupEnd(), "ncclGroupEnd");
}

void NcclTransfer::run_member(std::size_t place) {
  const std::size_t part = count_ / members_.size();
  auto* const range = static_cast<float*>(members_[place]->range.data());
  float* const own = range + part * place;
  const ncclComm_t member = group_->member(place);
  const cudaStream_t stream = members_[place]->stream.get();
  switch (kind_) {
    case TransferKind::AllReduce:
      return check(ncclAllReduce(range, range, count_, ncclFloat, ncclSum, member, stream),
                   "ncclAllReduce");
    case TransferKind::ReduceScatter:
      return check(ncclReduceScatter(range, own, part, ncclFloat, ncclSum, member, stream),
                   "ncclReduceScatter");
    case TransferKind::AllGather:
      return check(ncclAllGather(own, range, part, ncclFloat, member, stream), "ncclAllGather");
    case TransferKind::Broadcast:
      return check(ncclBroadcast(range, range, count_, ncclFloat, 0, member, stream),
                   "ncclBroadcast");
    case TransferKind::AllToAll:
      return exchange(place);
    case TransferKind::Send:
    case TransferKind::Receive:
      return;
  }
}

// Part j of this member to member j, and its part from there; never in place, as NCCL wants it.
void NcclTransfer::exchange(std::size_t place) {
  const std::size_t part = count_ / members_.size();
  const Member& mine = *members_[place];
  for (std::size_t other = 0; other < members_.size(); ++other) {
    check(ncclSend(static_cast<const float*>(mine.range.data()) + part * other, part, ncclFloat,
                   static_cast<int>(other), group_->member(place), mine.stream.get()),
          "ncclSend");
    check(ncclRecv(static_cast<float*>(mine.received.data()) + part * other, part, ncclFloat,
                   static_cast<int>(other), group_->member(place), mine.stream.get()),
          "ncclRecv");
  }
}

void NcclTransfer::send(std::size_t from, std::size_t to) {
  check(ncclGroupStart(), "ncclGroupStart");
  check(ncclSend(members_[from]->range.data(), count_, ncclFloat, static_cast<int>(to),
                 group_->member(from), members_[from]->stream.get()),
        "ncclSend");
  check(ncclRecv(members_[to]->range.data(), count_, ncclFloat, static_cast<int>(from),
                 group_->member(to), members_[to]->stream.get()),
        "ncclRecv");
  check(ncclGroupEnd(), "ncclGroupEnd");
}

}  // namespace meshwright::cuda
