#include "simulator/validation/run_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "costmodel/cluster/cluster_name.h"
#include "costmodel/cluster/cluster_shape.h"
#include "simulator/report/predict.h"
#include "simulator/validation/run_habits.h"
#include "simulator/validation/run_model.h"
#include "simulator/validation/run_options.h"

namespace meshwright {
namespace {

// The preset of a device as the runs name it. Memory decides between two of a kind.
std::optional<std::string> preset_of(const PublishedRun& run) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kPresets = {{
      {"V100", "v100"},
      {"H100", "h100"},
      {"H800", "h800"},
      {"H200", "h200"},
      {"B200", "b200"},
      {"B300", "b300"},
      {"GB200", "gb200-nvl72"},
      {"GB300", "gb300-nvl72"},
      {"MI300X", "mi300x"},
  }};
  if (run.gpu == "A100") return run.device_memory_gb == 40 ? "a100-40" : "a100-80";
  for (const auto& [gpu, preset] : kPresets) {
    if (run.gpu == gpu) return std::string(preset);
  }
  return std::nullopt;
}

constexpr double kGB = 1024.0 * 1024 * 1024;  // memory stacks are binary sizes

// Of a network's nominal bandwidth. Omni-Path was measured to carry far less: an all-reduce over 4
// nodes of 4 V100 with 100 Gb/s for each ran at a bus bandwidth of 10.6 of 50 GB/s, over 16 such
// nodes at 6.9, over 4 nodes of 8 A100 with 50 Gb/s for each at 5.1 (BigScience,
// experiments/bandwidth). The first is taken: runs on that network agree best with it.
double carried_share(const PublishedRun& run) {
  constexpr double kOmniPath = 10.6 / 50;
  return run.network.find("Omni-Path") == std::string::npos ? 1.0 : kOmniPath;
}

// Jobs take as many nodes of every rack: 64 of the 72 devices where they have 256.
std::int64_t equal_racks(std::int64_t nodes, std::int64_t rack) {
  std::int64_t share = std::min(nodes, rack);
  while (nodes % share != 0) --share;
  return share;
}

std::variant<Cluster, NotExpressed> cluster_of(const PublishedRun& run,
                                               const std::filesystem::path& data) {
  const auto preset = preset_of(run);
  if (!preset) return NotExpressed{fmt::format("there is no cluster preset for {}", run.gpu)};
  if (!run.devices || !run.devices_per_node) {
    return NotExpressed{"gpus or gpus_per_node is not stated"};
  }
  const std::int64_t on_node = std::min(*run.devices, *run.devices_per_node);
  if (*run.devices % on_node != 0) {
    return NotExpressed{fmt::format("{} devices are no whole nodes of {}", *run.devices, on_node)};
  }
  const Cluster described = find_cluster(*preset, data);
  const ClusterShape shape{.nodes = *run.devices / on_node, .devices = on_node};
  if (const auto problem = shape_problem(described, shape)) {
    return NotExpressed{fmt::format("{}: {}", *preset, *problem)};
  }
  Cluster cluster = with_shape(described, shape);
  for (NodeType& type : cluster.node_types) {
    if (!run.device_memory_gb) continue;
    type.device.memory = {Bytes(std::llround(*run.device_memory_gb * kGB)), Origin::Declared,
                          run.id};
  }
  for (std::size_t i = 0; i < cluster.network.size(); ++i) {
    LinkLevel& level = cluster.network[i];
    if (joins_nodes(fabric_of(cluster, LevelId{std::nullopt, i}))) {
      level.span = equal_racks(*shape.nodes, level.span.value_or(*shape.nodes));
    } else if (run.network_gbps) {
      const double nominal = *run.network_gbps / 8 * 1e9;
      level.bandwidth = {BytesPerSecond(nominal * carried_share(run)), Origin::Declared, run.id};
    }
  }
  return cluster;
}

// What the run's own options say, then its column `attention`, then the software's default.
AttentionKernel attention_of(const PublishedRun& run, AttentionKernel usual) {
  static constexpr std::array<std::pair<std::string_view, AttentionKernel>, 7> kOptions = {{
      {"flash1", AttentionKernel::Flash1},
      {"flash2", AttentionKernel::Flash2},
      {"flash3", AttentionKernel::Newest},
      {"flash4", AttentionKernel::Newest},
      {"cudnn-attn", AttentionKernel::Newest},
      {"fused-softmax", AttentionKernel::FusedSoftmax},
      {"unfused-attn", AttentionKernel::Unfused},
  }};
  for (const auto& [option, kernel] : kOptions) {
    if (run.has_option(option)) return kernel;
  }
  const bool in_blocks = !stores_scores(usual);
  if (run.attention == "flash") return in_blocks ? usual : AttentionKernel::Flash2;
  if (run.attention == "standard") return in_blocks ? AttentionKernel::Unfused : usual;
  return usual;
}

// A power cap lowers the clock: power grows with the cube of the frequency when the voltage follows
// it. 700 W is the data sheet's power of an H100 SXM.
double clock_share(const PublishedRun& run) {
  return run.has_option("power-cap-500w") ? std::cbrt(500.0 / 700.0) : 1.0;
}

// 8-bit numbers with a scale for every 32 of them are multiplied as fast as those with one for all.
std::optional<Precision> precision_named(const std::string& name) {
  return parse_precision(name == "mxfp8" ? "fp8" : name);
}

std::optional<std::string> missing_form(const PublishedRun& run) {
  if (run.arch != "moe" && (run.experts || run.ep.value_or(1) > 1)) {
    return fmt::format("experts of a model of arch {} are not expressed", run.arch);
  }
  if (run.arch != "moe" && run.has_option("mtp")) {
    return fmt::format("layers of arch {} that predict further tokens are not expressed", run.arch);
  }
  if (run.offload) return "offloading as that software does it is not expressed";
  if (run.schedule && run.schedule->starts_with("zb")) return "zero-bubble schedules are not named";
  if (run.precision && !precision_named(*run.precision)) {
    return fmt::format("training in {} is not lowered", *run.precision);
  }
  return std::nullopt;
}

std::optional<std::string> missing_field(const PublishedRun& run) {
  if (!run.tp || !run.pp || !run.dp) return "tp, pp or dp is not stated";
  if (!run.micro_batch || !run.global_batch) return "mbs or gbs is not stated";
  if (!run.precision) return "precision is not stated";
  if (!run.recompute || *run.recompute == "unknown") return "recompute is not stated";
  const std::int64_t cp = run.cp.value_or(1), all = *run.tp * *run.pp * *run.dp * cp;
  if (all != run.devices.value_or(0)) {
    return fmt::format("tp x pp x dp{} = {} is not the {} devices", cp > 1 ? " x cp" : "", all,
                       run.devices.value_or(0));
  }
  return std::nullopt;
}

RecomputeChoice recompute_of(const PublishedRun& run, const RunHabits& habits) {
  if (run.recompute == "full") return {.kind = Recompute::Uniform, .layers = 1};
  if (run.recompute != "selective") return {};
  if (RecomputeChoice modules = recomputed_modules(run); !modules.dropped.empty()) return modules;
  return {.kind = habits.keeps_products ? Recompute::Products : Recompute::Selective};
}

Precision precision_of(const PublishedRun& run) { return *precision_named(*run.precision); }

// With the run's own attention and loss: software that computes scores in blocks instead of storing
// them still has its own loss.
KernelSet kernels_of(const PublishedRun& run, const Software& software) {
  if (stores_scores(software.prices.attention)) return KernelSet::Unfused;
  if (run.has_option("fused-loss")) return KernelSet::Flash;
  return software.plan.kernels == KernelSet::Unfused ? KernelSet::Eager : software.plan.kernels;
}

// Of the time that rows take to their experts and back, what the kernels of another micro-batch
// hide: DeepSeek's profile of a pair of V3 on H800 (train.json,
// github.com/deepseek-ai/profile-data) computes for 29.5 ms, communicates for 28.6 and takes 32.2.
constexpr double kHiddenRows = (29.5 + 28.6 - 32.2) / 28.6;

// The software as the run says it was used.
Software software_of(const PublishedRun& run, Software software) {
  software.prices.attention = attention_of(run, software.prices.attention);
  software.plan.kernels = kernels_of(run, software);
  if (run.has_option("fused-loss")) software.prices.loss_launches = 1;
  if (run.has_option("compile")) software.prices.compiled = true;
  if (run.has_option("ep-overlap")) software.prices.hidden_rows = kHiddenRows;
  if (run.has_option("deepep")) software.prices.rows = RowExchange::Merged;
  if (run.has_option("hybridep")) software.prices.rows = RowExchange::Ordered;
  software.prices.choices = run.top_k.value_or(1);
  software.prices.narrow_attention = run.has_option("fp8-attn");
  software.prices.graphed = graphed_ops(run);
  software.memory.keeps_narrow_gradients = run.has_option("grad-unsharded");
  return software;
}

std::optional<Precision> gradients_of(const PublishedRun& run) {
  if (run.has_option("grad-fp16") || run.has_option("grad-bf16") || run.has_option("mp-pure")) {
    const Precision precision = precision_of(run);
    return precision == Precision::FP8 ? Precision::BF16 : precision;
  }
  return run.has_option("grad-fp32") ? std::optional(Precision::FP32) : std::nullopt;
}

// Chunks go round the stages; all have as many layers as an equal share rounded up while their
// stage has any, so that the last one is short of what stands behind it.
std::vector<std::int64_t> layers_by_chunk(std::vector<std::int64_t> stages, std::int64_t chunks) {
  const std::int64_t all = std::accumulate(stages.begin(), stages.end(), std::int64_t{0});
  const std::int64_t parts = std::ssize(stages) * chunks, share = (all + parts - 1) / parts;
  std::vector<std::int64_t> layers;
  for (std::int64_t c = 0; c < chunks; ++c) {
    for (std::int64_t& left : stages) {
      layers.push_back(c + 1 < chunks ? std::min(share, left) : left);
      left -= layers.back();
    }
  }
  return layers;
}

PlanChoices choices_with(const PublishedRun& run, const Software& software, const RunHabits& habits,
                         std::vector<std::string>& assumed) {
  PlanChoices choices = choices_of(software.plan, precision_of(run));
  choices.dp = *run.dp;
  choices.tp = *run.tp;
  choices.pp = *run.pp;
  choices.cp = run.cp.value_or(1);
  if (choices.cp > 1 && run.has_option("cp-a2a")) choices.context = Context::Ulysses;
  choices.ep = run.ep.value_or(1);
  choices.zero = static_cast<int>(run.zero.value_or(0));
  choices.microbatch = *run.micro_batch;
  choices.virtual_stages = run.vpp.value_or(1);
  choices.sequence_parallel = run.sequence_parallel.value_or(false) && *run.tp > 1;
  choices.recompute = recompute_of(run, habits);
  if (run.has_option("no-overlap")) choices.overlap = false;
  if (const auto gradients = gradients_of(run)) choices.gradient_precision = gradients;
  if (choices.pp == 1) choices.virtual_stages = 1;
  if (choices.virtual_stages > 1) choices.schedule = Schedule::Interleaved;
  if (run.stage_layers.size() == static_cast<std::size_t>(choices.pp)) {
    choices.layers = layers_by_chunk(run.stage_layers, choices.virtual_stages);
  }
  if (!run.zero) assumed.push_back("zero_stage = 0");
  const std::int64_t owners = *run.dp * choices.cp, shard = run.optimizer_shard.value_or(owners);
  if (choices.zero >= 1 && shard != owners) {
    assumed.push_back(fmt::format("optimizer sharded over dp{} = {} instead of {}",
                                  choices.cp > 1 ? " x cp" : "", owners, shard));
  }
  return choices;
}

}  // namespace

std::variant<RunPlan, NotExpressed> express(const PublishedRun& run,
                                            const std::vector<Software>& software,
                                            const std::filesystem::path& data) {
  if (const auto why = missing_form(run)) return NotExpressed{*why};
  if (const auto why = missing_field(run)) return NotExpressed{*why};
  RunPlan plan;
  const Software* named = find_software(software, run.software);
  const Software& used = named ? *named : software.front();
  if (!named) plan.assumed.push_back(fmt::format("software = {}", used.name));
  const RunHabits habits = habits_of(used.name, data);
  plan.software = software_of(run, used);
  auto model = model_of(run, habits.dropout, data, plan.assumed);
  if (auto* why = std::get_if<std::string>(&model)) return NotExpressed{std::move(*why)};
  plan.model = std::get<Model>(std::move(model));
  auto cluster = cluster_of(run, data);
  if (auto* why = std::get_if<NotExpressed>(&cluster)) return std::move(*why);
  plan.cluster = std::get<Cluster>(std::move(cluster));
  plan.clock_share = clock_share(run);
  if (run.zero.value_or(0) > 0)
    plan.optimizer_owners = run.optimizer_shard.value_or(*run.dp * run.cp.value_or(1));
  plan.choices = choices_with(run, plan.software, habits, plan.assumed);
  plan.batch = {
      .global_batch = *run.global_batch, .sequence = *run.sequence, .precision = precision_of(run)};
  const auto problems = check_choices(plan.choices, plan.batch, plan.model, plan.cluster);
  if (!problems.empty()) return NotExpressed{problems.front()};
  return plan;
}

}  // namespace meshwright
