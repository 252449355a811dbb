#include "executor/transfer_space.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "executor/transfer_pieces.h"

namespace meshwright {
namespace {

// Pieces of memory start at multiples of this.
constexpr std::int64_t kUnit = 256;

Bytes rounded(std::int64_t elements, Bytes width) {
  const std::int64_t bytes = elements * width.value();
  return Bytes((bytes + kUnit - 1) / kUnit * kUnit);
}

// Of a copy of what is sent, or of what does not lie as it has to.
Bytes memory_of(const Transfer& transfer, const Program& program) {
  const auto place = std::ranges::find(transfer.group, program.device) - transfer.group.begin();
  const TransferPieces pieces = transfer_pieces(transfer, static_cast<std::size_t>(place));
  const bool sends = transfer.kind == TransferKind::Send;
  return rounded(sends ? pieces.given[0].count : pieces.staged,
                 bytes_per_element(element_of(transfer), program.precision));
}

// The most that are sent and, in the one order of all tasks, not received yet.
std::int64_t most_on_their_way(const std::vector<OrderKey>& sends,
                               const std::vector<OrderKey>& receives) {
  if (sends.size() != receives.size()) {
    throw std::logic_error("a device receives another number of messages than it is sent");
  }
  std::int64_t most = 0;
  for (std::size_t sent = 0, received = 0; sent < sends.size(); ++sent) {
    while (received < sent && receives[received] < sends[sent]) ++received;
    most = std::max(most, static_cast<std::int64_t>(sent - received + 1));
  }
  return most;
}

std::map<DevicePair, std::vector<OrderKey>> keys_of(const Program& program, TransferKind kind) {
  std::map<DevicePair, std::vector<OrderKey>> keys;
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::Transfer || program.transfer(task).kind != kind) continue;
    keys[program.transfer(task).group].push_back(task.key);
  }
  return keys;
}

}  // namespace

ReceiveKeys receive_keys(const Program& program) { return keys_of(program, TransferKind::Receive); }

Bytes TransferSpace::total() const {
  Bytes total;
  for (const auto& [pair, space] : sends) total += space.total();
  for (const auto& [lane, bytes] : staging) total += bytes;
  return total;
}

TransferSpace transfer_space(const Program& program, const ReceiveKeys& receives) {
  TransferSpace space;
  for (const auto& [pair, keys] : keys_of(program, TransferKind::Send)) {
    const auto there = receives.find(pair);
    const auto& received = there == receives.end() ? std::vector<OrderKey>() : there->second;
    const auto count = static_cast<std::int64_t>(keys.size());
    space.sends[pair].copies = std::min(most_on_their_way(keys, received) + 1, count);
  }
  std::set<std::pair<LaneId, std::uint32_t>> seen;
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::Transfer || !seen.emplace(task.lane, task.what).second) continue;
    const Transfer& transfer = program.transfer(task);
    const bool sends = transfer.kind == TransferKind::Send;
    const Bytes needed = memory_of(transfer, program);
    if (!sends && needed == Bytes(0)) continue;
    Bytes& most = sends ? space.sends[transfer.group].each : space.staging[task.lane];
    most = std::max(most, needed);
  }
  return space;
}

std::vector<TransferSpace> transfer_spaces(std::span<const Program> programs) {
  ReceiveKeys receives;
  for (const Program& program : programs) receives.merge(receive_keys(program));
  std::vector<TransferSpace> spaces;
  for (const Program& program : programs) spaces.push_back(transfer_space(program, receives));
  return spaces;
}

}  // namespace meshwright
