#pragma once

#include <algorithm>
#include <map>
#include <string>

#include "costmodel/price/cost_model.h"
#include "costmodel/price/link_use.h"

namespace meshwright {

// Kernels by their name, transfers by their fullest link alone: prices a test can work out on
// paper.
class LinkCosts : public CostModel {
 public:
  explicit LinkCosts(const Cluster& cluster) : map_(cluster) {}

  std::map<std::string, Seconds> kernels;

  Price kernel(const Kernel& kernel, Precision, DeviceId) const override {
    return {.time = kernels.at(kernel.name)};
  }
  Price transfer(const Transfer& transfer, Precision precision) const override {
    const double bytes = bytes_sent(transfer, precision);
    double longest = 0;
    for (const LinkLoad& load : map_.loads(transfer.kind, transfer.group)) {
      longest = std::max(longest, bytes * load.share / map_.capacity(load.link).value());
    }
    return {.time = Seconds(longest)};
  }
  Price host_copy(const HostCopy& copy, Precision precision, DeviceId device) const override {
    return {.time =
                bytes_of(copy, precision) / map_.capacity(map_.host_link(copy.direction, device))};
  }

 private:
  LinkMap map_;
};

}  // namespace meshwright
