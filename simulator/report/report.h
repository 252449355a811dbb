#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/base/units.h"
#include "costmodel/cluster/cluster.h"
#include "simulator/program/program.h"
#include "simulator/program/timeline.h"
#include "simulator/report/host_use.h"
#include "simulator/report/time_parts.h"

namespace meshwright {

// Close: it fits, but with less than kCloseShare of the device's memory to spare beside what the
// allocator would reserve; an allocator that comes to its limit may still rearrange what it has.
enum class Fit { Yes, Close, No };
std::string_view to_text(Fit fit);
inline constexpr double kCloseShare = 0.05;

// What a device holds besides the buffers of its program, and what a step takes besides its tasks.
struct Overheads {
  Bytes context;                   // of a device in use
  Bytes communicator;              // of each group of collectives, and of all pairs together
  bool caching_allocator = false;  // buffers come from one: engine/allocator_model.h
  Bytes transfer_buffers;          // from that allocator too, kept all the time
  bool narrow_gradients = false;   // 16-bit ones, each as wide as its weight, beside fp32 ones
  bool gradient_copies = false;    // of 16-bit ones in fp32, in the step
  bool cast_weights = false;       // shards of weights are not kept beside their fp32 state
  Seconds between_steps;           // input, logging, waiting for all devices
};
// Assumptions, from rules of thumb: a CUDA context takes 0.4 to 0.6 GB; NCCL 0.3 to 1 GB and more,
// growing with communicators x channels x 4 MiB, of which 16 channels are counted here.
inline constexpr Overheads kGpuOverheads = {
    .context = 512_MiB, .communicator = 64_MiB, .caching_allocator = true};

struct DeviceReport {
  DeviceId device;
  std::int64_t count = 1;  // equal devices, of which it is the first
  std::int32_t stage = 0;  // of its tasks
  Bytes capacity;
  // The most the device needs at once: buffers, context and communicators.
  Bytes peak;
  ComponentBytes by_component;  // buffers, at the peak
  Bytes context, communicators;
  // What the allocator reserves for the step's buffers; without one, what they need at the peak.
  Bytes reserved;
  Seconds peak_time;  // the first moment that needs so much
  TimeParts parts;
  double sent_bytes = 0, received_bytes = 0;
  double to_host_bytes = 0, from_host_bytes = 0;
  Bytes host_peak;  // the most it has on its host at once
  friend bool operator==(const DeviceReport&, const DeviceReport&) = default;
};

inline constexpr std::string_view kMfuFormula =
    "3 x FLOPs of the forward kernels of all devices, each once (matrix products, of attention "
    "what "
    "its mask shows: half the square where it is causal) / (step_s x sum of the devices' peaks)";
inline constexpr std::string_view kFullSquareFormula =
    "the same with attention over the full square, as most publications count it; not given above "
    "1, where it counts more than runs";
inline constexpr std::string_view kHfuFormula =
    "FLOPs that all kernels computed / (step_s x sum of the devices' peaks)";
inline constexpr std::string_view kBubbleFormula =
    "mean over devices of the share of the step in which neither a kernel of the compute lane nor "
    "a transfer of the device is under way nor its host late";

// What a timeline amounts to. An empty step has no rates and no shares: they are 0.
struct Report {
  Seconds step;
  std::int64_t tokens = 0;
  double tokens_per_s = 0;
  // FLOPs as floating point: a step of a large model on many devices exceeds 64 bits.
  double model_flops = 0, full_square_flops = 0, executed_flops = 0;
  FlopsPerSecond peak;
  double mfu = 0, hfu = 0, bubble = 0;
  std::optional<double> mfu_full_square = {};  // none: it would exceed 1
  std::vector<DeviceReport> devices;  // in the order of the programs, or of classes of equal ones
  // Indices into `devices`: whose parts stand for the step (the device that finishes last; of
  // several the one that computes longest), and whose memory is fullest.
  std::size_t last_device = 0, fullest_device = 0;
  // Of the fullest device at its peak: activations by layer, in the order of the model; what is in
  // no layer together at the end.
  std::vector<std::pair<std::string, Bytes>> activations_by_layer;
  // Of the time that all tasks take alone, the share that has each origin.
  std::map<PriceOrigin, double> prices;
  std::optional<HostUse> host;  // the fullest; none: nothing is on a host
  Fit fits = Fit::Yes;          // No also where a host has too little memory
  friend bool operator==(const Report&, const Report&) = default;

  const DeviceReport& last() const { return devices[last_device]; }
  const DeviceReport& fullest() const { return devices[fullest_device]; }
  // What the device needs with what its allocator keeps.
  static Bytes needed(const DeviceReport& device) {
    return device.reserved + device.context + device.communicators;
  }
};

// What a device needs at least, whenever its tasks run: an allocator takes memory in their order.
// Without one nothing is said.
Bytes least_needed(const Program& program, const Overheads& overheads);

// Whether it fits devices that have no more than `limit`; none: what they have.
Fit fit_within(const Report& report, std::optional<Bytes> limit = {});

// `timeline` must be that of `programs`, of which there is at least one, and their devices must be
// in `cluster`. `classes` are the devices that each program stands for, which only hosts need;
// empty: each for its own.
Report summarize(std::span<const Program> programs, const Timeline& timeline,
                 const Cluster& cluster, const Overheads& overheads = {},
                 std::span<const std::vector<DeviceId>> classes = {});

}  // namespace meshwright
