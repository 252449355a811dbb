#include "executor/selftest/transfer_check.h"

#include <array>
#include <exception>
#include <mutex>
#include <thread>

#include "executor/device_buffers.h"
#include "executor/element_numbers.h"
#include "executor/thread_transport.h"

namespace meshwright {
namespace {

constexpr std::int64_t kPart = 5;  // elements that a member has of what is shared out

// A transfer among the first devices, as all see it.
struct TransferCase {
  TransferKind kind;
  std::int64_t members;

  // Elements of a member's source and target.
  std::int64_t source_count() const { return cuts_source(kind) ? kPart * members : kPart; }
  std::int64_t target_count() const { return cuts_target(kind) ? kPart * members : kPart; }
  // What member m's source holds at i, and its target should hold at the end.
  static double source(std::int64_t m, std::int64_t i) { return static_cast<double>(100 * m + i); }
  double sum(std::int64_t i) const {
    double all = 0;
    for (std::int64_t m = 0; m < members; ++m) all += source(m, i);
    return all;
  }
  double target(std::int64_t m, std::int64_t i) const {
    switch (kind) {
      case TransferKind::AllReduce:
        return sum(i);
      case TransferKind::ReduceScatter:
        return sum(m * kPart + i);
      case TransferKind::AllGather:
        return source(i / kPart, i % kPart);
      case TransferKind::AllToAll:
        return source(i / kPart, m * kPart + i % kPart);
      case TransferKind::Broadcast:
      case TransferKind::Send:
      case TransferKind::Receive:
        break;
    }
    return source(0, i);
  }
};

Operand whole(std::int64_t count, bool written) {
  return {.sizes = {count}, .strides = {1}, .written = written};
}

Transfer transfer_of(const TransferCase& all, std::int64_t member) {
  Transfer transfer{.kind = all.kind};
  for (std::int64_t m = 0; m < all.members; ++m) {
    transfer.group.push_back(DeviceId(static_cast<std::size_t>(m)));
  }
  if (all.kind == TransferKind::Send && member == 1) transfer.kind = TransferKind::Receive;
  if (transfer.kind != TransferKind::Receive) transfer.source = whole(all.source_count(), false);
  if (transfer.kind != TransferKind::Send) transfer.target = whole(all.target_count(), true);
  return transfer;
}

Program program_of(const TransferCase& all, std::int64_t member) {
  Program program{.device = DeviceId(static_cast<std::size_t>(member)),
                  .precision = Precision::FP32};
  program.transfers = {transfer_of(all, member)};
  program.lanes = {"transfers"};
  const Transfer& transfer = program.transfers[0];
  for (const auto& operand : {transfer.source, transfer.target}) {
    if (!operand) continue;
    program.operands.push_back(BufferId(program.buffers.size()));
    program.buffers.push_back(
        {.name = SharedText("part"), .count = operand->sizes[0], .persistent = true});
  }
  program.tasks = {{.kind = TaskKind::Transfer,
                    .lane = LaneId(0),
                    .operand_count = static_cast<std::uint32_t>(program.operands.size())}};
  return program;
}

// The largest difference on one member.
double run_member(const TransferCase& all, std::int64_t member, const DeviceMaker& make_device,
                  Transport& transport) {
  const Program program = program_of(all, member);
  const auto device = make_device(program, transport);
  device->connect(transport);
  const DeviceBuffers buffers(program, *device, 0);
  const LaneId lane(0);
  std::vector<std::byte*> starts;
  for (const BufferId id : program.operands) starts.push_back(buffers.start_of(id));
  const Transfer& transfer = program.transfers[0];
  if (transfer.source) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(all.source_count()) * sizeof(float));
    for (std::int64_t i = 0; i < all.source_count(); ++i) {
      set_number(bytes, i, TransferCase::source(member, i), BufferElement::Real, Precision::FP32);
    }
    device->write(lane, bytes, starts[0]);
  }
  device->begin(lane, 0);
  device->transfer(lane, transfer, starts);
  device->record(lane, 0);
  device->finish();
  if (!transfer.target) return 0;
  const auto found = buffers.numbers_in(program.operands.back(), lane);
  double most = 0;
  for (std::int64_t i = 0; i < all.target_count(); ++i) {
    most = std::max(most, std::abs(found[static_cast<std::size_t>(i)] - all.target(member, i)));
  }
  return most;
}

// All members at once; what the first of them to fail says is the problem.
SelfCheck check_transfer(const TransferCase& all, const DevicesMaker& make_devices) {
  SelfCheck check{
      .part = "transfers",
      .name = std::string(to_text(all.kind)) + ", " + std::to_string(all.members) + " devices"};
  const DeviceMaker make_device = make_devices(transfer_of(all, 0).group);
  ThreadNetwork network;
  std::mutex mutex;
  {
    std::vector<std::jthread> threads;
    for (std::int64_t member = 0; member < all.members; ++member) {
      threads.emplace_back([&, member] {
        const auto transport = network.endpoint(DeviceId(static_cast<std::size_t>(member)));
        try {
          const double error = run_member(all, member, make_device, *transport);
          const std::lock_guard lock(mutex);
          check.error = std::max(check.error, error);
        } catch (const std::exception& error) {
          network.fail(error.what());
          const std::lock_guard lock(mutex);
          if (check.problem.empty()) check.problem = error.what();
        }
      });
    }
  }
  return check;
}

}  // namespace

std::vector<SelfCheck> check_transfers(const DevicesMaker& make_devices, std::int64_t devices,
                                       const std::function<void(const SelfCheck&)>& tried) {
  using K = TransferKind;
  std::vector<SelfCheck> checks;
  for (std::int64_t members = 2; members <= devices; ++members) {
    for (const K kind :
         {K::AllReduce, K::ReduceScatter, K::AllGather, K::AllToAll, K::Broadcast, K::Send}) {
      if (kind == K::Send && members > 2) continue;
      checks.push_back(check_transfer({kind, members}, make_devices));
      tried(checks.back());
    }
  }
  return checks;
}

}  // namespace meshwright
