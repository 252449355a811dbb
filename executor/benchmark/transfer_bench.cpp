#include "executor/benchmark/transfer_bench.h"

#include <array>
#include <chrono>
#include <utility>

#include "executor/common_rows.h"

namespace meshwright {
namespace {

// In place, but for an exchange, which cannot be.
Transfer seen_by(std::size_t place, TransferKind kind, const std::vector<DeviceId>& group,
                 Bytes bytes) {
  const Operand whole = dense_operand({bytes.value() / 4});
  Transfer own{.kind = kind, .group = group, .source = whole, .target = whole};
  const std::int64_t part = whole.sizes[0] / static_cast<std::int64_t>(group.size());
  const Operand own_part = narrowed(whole, 0, part * static_cast<std::int64_t>(place), part);
  if (kind == TransferKind::AllGather) own.source = own_part;
  if (kind == TransferKind::ReduceScatter) own.target = own_part;
  return own;
}

}  // namespace

TransferBench::TransferBench(TransferKind kind, const std::vector<DeviceId>& group, Bytes bytes,
                             std::size_t place)
    : place_(place),
      is_send_(kind == TransferKind::Send),
      transfer_(seen_by(place, kind, group, bytes)),
      memory_(static_cast<std::size_t>(bytes.value())) {
  if (kind == TransferKind::AllToAll) target_ = memory_;
}

Seconds TransferBench::run(Transport& transport, std::int64_t count) {
  run_once(transport);
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < count; ++i) run_once(transport);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  return Seconds(is_send_ ? time.count() / 2 : time.count());
}

void TransferBench::run_once(Transport& transport) {
  if (is_send_) return ping(transport);
  const std::array buffers = {memory_.data(), target_.empty() ? memory_.data() : target_.data()};
  transport.run(transfer_, Precision::FP32, buffers);
}

// There and back: two transfers, one way each.
void TransferBench::ping(Transport& transport) {
  for (std::size_t sender = 0; sender < 2; ++sender) {
    Transfer part = transfer_;
    part.kind = sender == place_ ? TransferKind::Send : TransferKind::Receive;
    (sender == place_ ? part.target : part.source).reset();
    if (sender == 1) std::swap(part.group[0], part.group[1]);
    const std::array buffers = {memory_.data()};
    transport.run(part, Precision::FP32, buffers);
  }
}

}  // namespace meshwright
