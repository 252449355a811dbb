#include "costmodel/kernel/transfer.h"

namespace meshwright {

std::string_view to_text(TransferKind kind) {
  switch (kind) {
    case TransferKind::AllReduce:
      return "all_reduce";
    case TransferKind::ReduceScatter:
      return "reduce_scatter";
    case TransferKind::AllGather:
      return "all_gather";
    case TransferKind::AllToAll:
      return "all_to_all";
    case TransferKind::Broadcast:
      return "broadcast";
    case TransferKind::Send:
      return "send";
    case TransferKind::Receive:
      return "receive";
  }
  return "";
}

std::string_view to_text(Purpose purpose) {
  switch (purpose) {
    case Purpose::Tensor:
      return "tensor";
    case Purpose::Pipeline:
      return "pipeline";
    case Purpose::Gradients:
      return "gradients";
    case Purpose::Weights:
      return "weights";
    case Purpose::Tied:
      return "tied";
    case Purpose::Norm:
      return "norm";
    case Purpose::Loss:
      return "loss";
  }
  return "";
}

double bytes_sent(TransferKind kind, Bytes whole, std::int64_t members) {
  const auto bytes = static_cast<double>(whole.value());
  const auto n = static_cast<double>(members);
  switch (kind) {
    case TransferKind::AllReduce:
      return 2 * bytes * (n - 1) / n;
    case TransferKind::ReduceScatter:
    case TransferKind::AllGather:
    case TransferKind::AllToAll:
      return bytes * (n - 1) / n;
    case TransferKind::Broadcast:
    case TransferKind::Send:
    case TransferKind::Receive:
      return bytes;
  }
  return 0;
}

double bytes_sent(const Transfer& transfer, Precision precision) {
  return bytes_sent(transfer.kind, bytes_per_element(transfer.element, precision) * transfer.count,
                    static_cast<std::int64_t>(transfer.group.size()));
}

}  // namespace meshwright
