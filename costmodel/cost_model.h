#pragma once

#include "costmodel/cluster.h"
#include "costmodel/ids.h"
#include "costmodel/kernel.h"
#include "costmodel/precision.h"
#include "costmodel/transfer.h"
#include "costmodel/units.h"

namespace meshwright {

enum class PriceOrigin { Measured, Fitted, Formula };

struct Price {
  Seconds time;
  PriceOrigin origin = PriceOrigin::Formula;
};

// How long kernels and transfers take, alone on their device and links.
class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual Price kernel(const Kernel& kernel, Precision precision, DeviceId device) const = 0;
  virtual Price transfer(const Transfer& transfer, Precision precision) const = 0;
};

// Kernels by their roofline, transfers by latency and bandwidth of the outermost level their group
// needs.
class FormulaCosts : public CostModel {
 public:
  explicit FormulaCosts(const Cluster& cluster) : cluster_(cluster) {}
  Price kernel(const Kernel& kernel, Precision precision, DeviceId device) const override;
  Price transfer(const Transfer& transfer, Precision precision) const override;

 private:
  const Cluster& cluster_;  // must outlive this
};

}  // namespace meshwright
