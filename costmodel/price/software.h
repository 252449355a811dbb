#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/units.h"
#include "costmodel/model/kernel_set.h"
#include "costmodel/price/device_fit.h"

namespace meshwright {

// How rows come to the devices of their experts: a copy for each expert, put in order before and
// after (NCCL); merged to one for each device, in order after (DeepEP); or that too on the way
// (Hybrid-EP).
enum class RowExchange { Copied, Merged, Ordered };

// What the kernels of a software take: read by prices.
struct SoftwarePrices {
  AttentionKernel attention = AttentionKernel::Flash2;
  // Device time beside each launch: gaps, and small kernels that no op stands for (casts, copies).
  double kernel_gap_s = 0;
  bool fused_adds = false;         // sums of the forward are part of the kernel behind them
  std::int64_t loss_launches = 1;  // kernels that the loss is computed with, forward or backward
  double row_passes = 1;           // memory that row-wise kernels move, by every operand once
  bool compiled = false;          // row-wise kernels are fused, and move every operand at most once
  double attention_share = 1;     // of the rate of attention alone that training reaches
  bool narrow_attention = false;  // in 8 bits where products are
  RowExchange rows = RowExchange::Copied;
  std::int64_t choices = 1;  // experts of a token, where its rows are merged
  double hidden_rows = 0;    // of that time, what another micro-batch's kernels hide
  // Parts of the names of ops whose kernels a graph launches, without a gap; "" is part of all.
  std::vector<std::string> graphed;
  friend bool operator==(const SoftwarePrices&, const SoftwarePrices&) = default;
};

// How it plays a step: read by the engine.
struct SoftwareStep {
  double dispatch_s = 0;    // what the host needs to launch a kernel
  bool host_waits = false;  // for receives, before it launches more
  // Of kernels while a collective of the device is under way.
  double slow_down_inside_node = 0, slow_down_across_nodes = 0;
  // Whether what a step leaves to do, such as gathers of updated weights, may run beside the next.
  bool overlaps_steps = false;
  double step_s = 0;   // once a step: input, logging, waiting for all devices
  double owner_s = 0;  // of a step for each owner of optimizer state: it sends what it updated
  friend bool operator==(const SoftwareStep&, const SoftwareStep&) = default;
};

// What it does where a plan does not say.
struct PlanDefaults {
  KernelSet kernels = KernelSet::Executor;  // what is kept for the backward
  Bytes bucket = 25_MiB;                    // weights whose gradients are reduced together
  Bytes bucket_per_replica = {};            // and at least so many for each replica
  bool overlap_gradients = true;            // with the backward
  std::int64_t prefetch = 1;                // buckets that weights are gathered ahead
  bool wide_gradients = true;               // gradients are added up and reduced in fp32
  bool narrow_in_fp16 = false;              // but those of a run in fp16, which scales its loss
  bool reruns_all = false;                  // of what it recomputes, also what no gradient reads
  friend bool operator==(const PlanDefaults&, const PlanDefaults&) = default;
};

// What it holds besides the tensors of a plan.
struct SoftwareMemory {
  Bytes context;                  // of the device that no allocator sees
  Bytes communicator;             // for each group of devices that a device is in
  Bytes transfer_buffers;         // that weights and gradients are gathered in, kept all the time
  Bytes gradient_buffers;         // likewise of 16-bit gradients; twice as much of fp32 ones
  bool caching_allocator = true;  // that buffers come from
  bool copies_gradients = false;  // 16-bit ones that a device updates by, to fp32 in the step
  bool keeps_narrow_gradients = false;  // 16-bit ones, whole, that fp32 ones are added up from
  // Weights that are shared out are there in fp32 alone, and cast to 16 bits to be gathered.
  bool casts_weights = false;
  friend bool operator==(const SoftwareMemory&, const SoftwareMemory&) = default;
};

// The training software that runs a plan, in parts by who reads them. Few numbers, each with a
// meaning; the shipped ones stand in data/software.json.
struct Software {
  std::string name;
  std::vector<std::string> also;  // other names that published runs use for it
  std::string like;  // another one that it takes its numbers from but for some. Empty: none
  std::string sources;
  SoftwarePrices prices;
  SoftwareStep step;
  PlanDefaults plan;
  SoftwareMemory memory;
  friend bool operator==(const Software&, const Software&) = default;
};

// The file `software.json` of the shipped data; its format stands in data/README.md. The first one
// is what is assumed where none is named. Throws InputError.
std::vector<Software> read_software(const std::filesystem::path& file);

// By its name or another name of it. Null: none has it.
const Software* find_software(const std::vector<Software>& all, std::string_view name);

}  // namespace meshwright
