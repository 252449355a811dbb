#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "costmodel/cluster.h"
#include "costmodel/units.h"
#include "simulator/program.h"
#include "simulator/time_parts.h"
#include "simulator/timeline.h"

namespace meshwright {

// Close: it fits, with less than kCloseShare of the device's memory to spare.
enum class Fit { Yes, Close, No };
std::string_view to_text(Fit fit);
inline constexpr double kCloseShare = 0.05;

struct DeviceReport {
  DeviceId device;
  Bytes capacity;
  Bytes peak;
  ComponentBytes by_component;  // at the peak
  Seconds peak_time;            // the first moment that needs so much
  TimeParts parts;
  double sent_bytes = 0, received_bytes = 0;
  friend bool operator==(const DeviceReport&, const DeviceReport&) = default;
};

inline constexpr std::string_view kMfuFormula =
    "3 x FLOPs of the forward kernels of all devices (matrix products, attention over the full "
    "square) / (step_s x sum of the devices' peaks)";
inline constexpr std::string_view kHfuFormula =
    "FLOPs of all kernels that ran / (step_s x sum of the devices' peaks)";
inline constexpr std::string_view kBubbleFormula =
    "mean over devices of the share of the step in which neither a kernel of the compute lane nor "
    "a transfer of the device is under way";

// What a timeline amounts to. An empty step has no rates and no shares: they are 0.
struct Report {
  Seconds step;
  std::int64_t tokens = 0;
  double tokens_per_s = 0;
  // FLOPs as floating point: a step of a large model on many devices exceeds 64 bits.
  double model_flops = 0, executed_flops = 0;
  FlopsPerSecond peak;
  double mfu = 0, hfu = 0, bubble = 0;
  std::vector<DeviceReport> devices;  // in the order of the programs
  // Indices into `devices`: whose parts stand for the step (the device that finishes last; of
  // several the one that computes longest), and whose memory is fullest.
  std::size_t last_device = 0, fullest_device = 0;
  Fit fits = Fit::Yes;
  friend bool operator==(const Report&, const Report&) = default;

  const DeviceReport& last() const { return devices[last_device]; }
  const DeviceReport& fullest() const { return devices[fullest_device]; }
};

// `timeline` must be that of `programs`, of which there is at least one, and their devices must be
// in `cluster`.
Report summarize(std::span<const Program> programs, const Timeline& timeline,
                 const Cluster& cluster);

}  // namespace meshwright
