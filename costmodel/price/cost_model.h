#pragma once

#include <string_view>

#include "costmodel/base/ids.h"
#include "costmodel/base/precision.h"
#include "costmodel/base/units.h"
#include "costmodel/cluster/cluster.h"
#include "costmodel/kernel/host_copy.h"
#include "costmodel/kernel/kernel.h"
#include "costmodel/kernel/transfer.h"

namespace meshwright {

enum class PriceOrigin { Measured, Fitted, Formula };
inline constexpr std::size_t kPriceOrigins = 3;
std::string_view to_text(PriceOrigin origin);

struct Price {
  Seconds time;
  PriceOrigin origin = PriceOrigin::Formula;
  // By the host: a software may have several kernels for it, or none of its own (0).
  std::int64_t launches = 1;
};

// How long kernels, transfers and copies take, alone on their device and links.
class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual Price kernel(const Kernel& kernel, Precision precision, DeviceId device) const = 0;
  virtual Price transfer(const Transfer& transfer, Precision precision) const = 0;
  // Between a device and the host of its node, which must have one. A model that knows no hosts
  // throws std::logic_error.
  virtual Price host_copy(const HostCopy& copy, Precision precision, DeviceId device) const;
};

// By the declared host link and the share of it that copies were measured to reach:
// host_copy_time.
Price host_copy_price(const HostCopy& copy, Precision precision, const Cluster& cluster,
                      DeviceId device);

// What a device multiplies matrices at. A precision it has no peak for is computed in the next
// one before it in kPrecisions that it has one for (fp8 in bf16, bf16 in fp16, tf32 in fp32). With
// none before, it takes as many operations of the next one after it as it is times as wide: fp64
// on a device that only knows fp32 runs at half the speed.
FlopsPerSecond peak_of(const DeviceType& device, Precision precision);

}  // namespace meshwright
