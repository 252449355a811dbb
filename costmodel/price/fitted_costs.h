#pragma once

#include <map>
#include <string>
#include <vector>

#include "costmodel/price/cost_model.h"
#include "costmodel/price/fit_file.h"
#include "costmodel/price/software.h"

namespace meshwright {

// Prices by what was fitted for the devices, with the kernels of a software. Devices without a fit
// are priced by formula_fit.
class FittedCosts : public CostModel {
 public:
  // The cluster must outlive this.
  FittedCosts(const Cluster& cluster, const Fits& fits, const SoftwarePrices& software);
  Price kernel(const Kernel& kernel, Precision precision, DeviceId device) const override;
  Price transfer(const Transfer& transfer, Precision precision) const override;
  Price host_copy(const HostCopy& copy, Precision precision, DeviceId device) const override {
    return host_copy_price(copy, precision, cluster_, device);
  }
  // A transfer of `size` bytes by more than one device, and how it is carried out.
  CollectiveTime carried(TransferKind kind, Bytes size, const std::vector<DeviceId>& group) const;
  // Of prices of the device's kernels and transfers.
  PriceOrigin origin(DeviceId device) const { return known(device).origin; }

 private:
  struct Known {
    DeviceFit fit;
    PriceOrigin origin = PriceOrigin::Formula;
  };
  const Known& known(DeviceId device) const;
  // Than the kernel alone and by every operand once.
  double times_longer(KernelKind kind) const;

  const Cluster& cluster_;
  NetworkFits network_;
  SoftwarePrices software_;
  std::map<std::string, Known> known_;  // by DeviceType::name
};

}  // namespace meshwright
