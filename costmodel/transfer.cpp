#include "costmodel/transfer.h"

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

double bytes_sent(const Transfer& transfer, Precision precision) {
  const Bytes element = bytes_per_element(transfer.element, precision);
  const double whole = static_cast<double>((element * transfer.count).value());
  const double members = static_cast<double>(transfer.group.size());
  switch (transfer.kind) {
    case TransferKind::AllReduce:
      return 2 * whole * (members - 1) / members;
    case TransferKind::ReduceScatter:
    case TransferKind::AllGather:
    case TransferKind::AllToAll:
      return whole * (members - 1) / members;
    case TransferKind::Broadcast:
    case TransferKind::Send:
    case TransferKind::Receive:
      return whole;
  }
  return 0;
}

}  // namespace meshwright
