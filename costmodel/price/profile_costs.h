#pragma once

#include "costmodel/cluster/cluster.h"
#include "costmodel/price/cost_model.h"
#include "costmodel/profile/measured_times.h"

namespace meshwright {

// What a profile measured, where it did; everything else by another model.
class ProfileCosts : public CostModel {
 public:
  // All must outlive this.
  ProfileCosts(const MeasuredTimes& times, const Cluster& cluster, const CostModel& otherwise)
      : times_(times), cluster_(cluster), otherwise_(otherwise) {}
  Price kernel(const Kernel& kernel, Precision precision, DeviceId device) const override;
  Price transfer(const Transfer& transfer, Precision precision) const override;
  // The time that was measured. None: the profile does not have it.
  std::optional<Seconds> measured(TransferKind kind, Bytes size,
                                  const std::vector<DeviceId>& group) const;
  Price host_copy(const HostCopy& copy, Precision precision, DeviceId device) const override {
    return otherwise_.host_copy(copy, precision, device);
  }

 private:
  const MeasuredTimes& times_;
  const Cluster& cluster_;
  const CostModel& otherwise_;
};

// Over how many nodes a group is spread. None: they do not all have the same number of its devices,
// or not all devices are of one type.
std::optional<GroupPlace> place_of(const Cluster& cluster, const std::vector<DeviceId>& group);

}  // namespace meshwright
