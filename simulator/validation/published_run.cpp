#include "simulator/validation/published_run.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace meshwright {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::size_t first = 0;
  while (first <= text.size() && !text.empty()) {
    const std::size_t end = std::min(text.find(at, first), text.size());
    parts.push_back(text.substr(first, end - first));
    first = end + 1;
  }
  return parts;
}

std::vector<std::int64_t> stage_layers(const CsvInput& table, std::size_t row) {
  std::vector<std::int64_t> layers;
  for (const std::string& part : split(table.text(row, "stage_layers").value_or(""), ',')) {
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), count);
    if (error != std::errc() || end != part.data() + part.size() || count < 0) {
      table.fail_expected(row, "stage_layers", "whole numbers such as 2,3,3,2");
    }
    layers.push_back(count);
  }
  return layers;
}

MemoryKind memory_kind(const CsvInput& table, std::size_t row) {
  const std::string kind = table.text(row, "memory_kind").value_or("unknown");
  if (kind == "allocated") return MemoryKind::Allocated;
  if (kind == "reserved") return MemoryKind::Reserved;
  if (kind == "driver") return MemoryKind::Driver;
  if (kind == "unknown") return MemoryKind::Unknown;
  table.fail_expected(row, "memory_kind", "allocated, reserved, driver or unknown");
}

// A unit that is not stated is read as GiB, as tools that print memory mean it.
std::optional<Bytes> peak_memory(const CsvInput& table, std::size_t row) {
  const auto value = table.number(row, "peak_mem_gb");
  if (!value) return std::nullopt;
  const double unit = table.text(row, "memory_unit") == "GB" ? 1e9 : 1024.0 * 1024 * 1024;
  return Bytes(static_cast<std::int64_t>(std::llround(*value * unit)));
}

std::optional<Seconds> step_of(const CsvInput& table, std::size_t row, const PublishedRun& run) {
  if (const auto seconds = table.number(row, "iter_time_s")) return Seconds(*seconds);
  const auto rate = table.number(row, "tokens_per_s_per_gpu");
  if (!rate || *rate <= 0 || !run.global_batch || !run.sequence || !run.devices) {
    return std::nullopt;
  }
  return Seconds(static_cast<double>(*run.global_batch * *run.sequence) /
                 (*rate * static_cast<double>(*run.devices)));
}

std::optional<bool> flag(const CsvInput& table, std::size_t row, std::string_view column) {
  const auto value = table.integer(row, column);
  return value ? std::optional(*value != 0) : std::nullopt;
}

PublishedRun read_run(const CsvInput& table, std::size_t row) {
  const auto text = [&](std::string_view column) { return table.text(row, column); };
  const auto whole = [&](std::string_view column, std::int64_t least = 1) {
    return table.integer(row, column, least);
  };
  PublishedRun run{.id = text("id").value_or(""),
                   .source = text("source").value_or(""),
                   .model = text("model").value_or(""),
                   .arch = text("arch").value_or(""),
                   .gpu = text("gpu").value_or(""),
                   .software = text("software").value_or(""),
                   .network = text("inter_node").value_or(""),
                   .trust = text("trust").value_or(""),
                   .layers = whole("layers"),
                   .hidden = whole("hidden"),
                   .heads = whole("heads"),
                   .kv_heads = whole("kv_heads"),
                   .ffn = whole("ffn_hidden"),
                   .vocabulary = whole("vocab"),
                   .sequence = whole("seq_len"),
                   .experts = whole("experts"),
                   .top_k = whole("top_k"),
                   .devices = whole("gpus"),
                   .devices_per_node = whole("gpus_per_node"),
                   .device_memory_gb = table.number(row, "gpu_mem_gb"),
                   .network_gbps = table.number(row, "internode_gbps_per_gpu"),
                   .precision = text("precision"),
                   .attention = text("attention"),
                   .recompute = text("recompute"),
                   .schedule = text("schedule"),
                   .tp = whole("tp"),
                   .pp = whole("pp"),
                   .vpp = whole("vpp"),
                   .dp = whole("dp"),
                   .cp = whole("cp"),
                   .ep = whole("ep"),
                   .zero = whole("zero_stage", 0),
                   .micro_batch = whole("mbs"),
                   .global_batch = whole("gbs"),
                   .optimizer_shard = whole("optimizer_shard"),
                   .sequence_parallel = flag(table, row, "sp"),
                   .offload = flag(table, row, "offload").value_or(false),
                   .stage_layers = stage_layers(table, row),
                   .options = split(text("kernel_options").value_or(""), ';'),
                   .peak_memory = peak_memory(table, row),
                   .memory_kind = memory_kind(table, row)};
  if (run.id.empty()) table.fail_expected(row, "id", "a name");
  run.step = step_of(table, row, run);
  return run;
}

// What runs of one model have in common.
using ModelKey = std::tuple<std::string, std::string, std::optional<std::int64_t>,
                            std::optional<std::int64_t>, std::optional<std::int64_t>>;
ModelKey key_of(const PublishedRun& run) {
  return {run.source, run.model, run.layers, run.hidden, run.ffn};
}

void take_heads_from_others(std::vector<PublishedRun>& runs) {
  std::map<ModelKey, std::set<std::int64_t>> stated;
  for (const PublishedRun& run : runs) {
    if (run.heads) stated[key_of(run)].insert(*run.heads);
  }
  for (PublishedRun& run : runs) {
    const auto others = stated.find(key_of(run));
    if (run.heads || run.model.empty() || others == stated.end()) continue;
    if (others->second.size() != 1) continue;
    run.heads = *others->second.begin();
    run.heads_are_of_others = true;
  }
}

}  // namespace

bool PublishedRun::has_option(std::string_view option) const {
  return std::ranges::find(options, option) != options.end();
}

bool PublishedRun::scored() const {
  return trust == "A" && precision && recompute && *recompute != "unknown";
}

bool PublishedRun::is_narrow() const {
  return precision && (precision->ends_with("fp8") || precision->ends_with("fp4"));
}

std::string source_of(const PublishedRun& run) {
  return run.id.substr(0, run.id.find_last_of('-'));
}

std::vector<PublishedRun> read_runs(const CsvInput& table) {
  std::vector<PublishedRun> runs;
  for (std::size_t row = 0; row < table.rows(); ++row) runs.push_back(read_run(table, row));
  take_heads_from_others(runs);
  return runs;
}

}  // namespace meshwright
