#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/base/csv_input.h"
#include "costmodel/base/units.h"

namespace meshwright {

// What a measured peak of memory counts: what the software asked for, what its allocator holds for
// it, or what the driver says the device has given away.
enum class MemoryKind { Allocated, Reserved, Driver, Unknown };

// One row of a table with the columns of data/published/runs.csv: a training run that somebody
// measured, as they describe it. What they do not say is absent.
struct PublishedRun {
  std::string id, source, model, arch, gpu, software;
  std::string network;  // what connects the nodes, in the source's words
  std::string trust;
  std::optional<std::int64_t> layers, hidden, heads, kv_heads, ffn, vocabulary, sequence, experts,
      top_k;
  std::optional<std::int64_t> devices, devices_per_node;
  std::optional<double> device_memory_gb, network_gbps;
  std::optional<std::string> precision, attention, recompute, schedule;
  std::optional<std::int64_t> tp, pp, vpp, dp, cp, ep, zero, micro_batch, global_batch;
  std::optional<std::int64_t> optimizer_shard;
  std::optional<bool> sequence_parallel;
  bool offload = false;
  std::vector<std::int64_t> stage_layers;
  std::vector<std::string> options;  // of kernel_options

  std::optional<Seconds> step;  // printed, or from tokens per second
  std::optional<Bytes> peak_memory;
  MemoryKind memory_kind = MemoryKind::Unknown;

  // `heads` was not stated by the run itself but by others of its model.
  bool heads_are_of_others = false;

  bool has_option(std::string_view option) const;
  // Trusted and described well enough to be scored: trust A, with known recomputation and
  // precision.
  bool scored() const;
  // Whether its products have 8 bits or fewer. Such runs are told apart and never fitted.
  bool is_narrow() const;
};

// The part of an id before its number: "bloom" of "bloom-012".
std::string source_of(const PublishedRun& run);

// Heads that a run does not state are those of other runs of its model (same source, name and
// sizes), if all of these agree. Throws InputError for a table that lacks a column or holds what a
// column cannot.
std::vector<PublishedRun> read_runs(const CsvInput& table);

}  // namespace meshwright
