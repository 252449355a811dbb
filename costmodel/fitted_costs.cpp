#include "costmodel/fitted_costs.h"

#include "costmodel/kernel_cost.h"
#include "costmodel/transfer_cost.h"

namespace meshwright {

FittedCosts::FittedCosts(const Cluster& cluster, const Fits& fits, const Software& software)
    : cluster_(cluster), network_(fits.network), software_(software) {
  for (const NodeType& type : cluster.node_types) {
    const DeviceFit* fit = find_fit(fits, type.device.name);
    known_[type.device.name] = fit ? Known{*fit, PriceOrigin::Fitted}
                                   : Known{formula_fit(type.device), PriceOrigin::Formula};
  }
}

const FittedCosts::Known& FittedCosts::known(DeviceId device) const {
  return known_.at(device_type_of(cluster_, device).name);
}

Price FittedCosts::kernel(const Kernel& kernel, Precision precision, DeviceId device) const {
  const Known& by = known(device);
  const DeviceType& type = device_type_of(cluster_, device);
  const Seconds time = kernel_time(kernel, precision, type, by.fit, software_.attention);
  const Seconds launch(by.fit.launch_s);
  return {.time = launch + Seconds(software_.kernel_gap_s) +
                  (time - launch) * times_longer(kernel.kind),
          .origin = by.origin};
}

double FittedCosts::times_longer(KernelKind kind) const {
  if (kind == KernelKind::Matmul) return 1;
  return kind == KernelKind::Attention ? 1 / software_.attention_share : software_.row_passes;
}

Price FittedCosts::transfer(const Transfer& transfer, Precision precision) const {
  const Known& by = known(transfer.group.front());
  const Bytes size = bytes_per_element(transfer.element, precision) * transfer.count;
  const GroupShape shape = group_shape(cluster_, transfer.group);
  if (shape.members == 1) return {.time = Seconds(0), .origin = by.origin};
  const GroupLinks links = group_links(cluster_, transfer.group, by.fit.links);
  return {.time = transfer_time(transfer.kind, size, shape, links, by.fit.links, network_),
          .origin = by.origin};
}

}  // namespace meshwright
