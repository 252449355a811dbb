#include <fmt/format.h>

#include <algorithm>

#include "import/plan/target_readers.h"

namespace meshwright {
namespace {

Precision plugin_precision(ForeignSettings& settings, const std::string& plugin) {
  if (settings.truth(plugin + "use_fp8").value_or(false)) return Precision::FP8;
  const std::string type = settings.word(plugin + "precision").value_or("fp16");
  const auto precision = parse_precision(type);
  if (precision) return *precision;
  settings.refuse(plugin + "precision", "expected fp16, bf16 or fp32");
  return Precision::FP16;
}

void read_plugin_sequence(ForeignSettings& settings, PlanChoices& choices,
                          const std::string& plugin) {
  const std::string mode =
      settings.word(plugin + "sequence_parallelism_mode").value_or("all_to_all");
  const auto size = settings.count(plugin + "sp_size").value_or(1);
  if (!settings.truth(plugin + "enable_sequence_parallelism").value_or(false)) return;
  if (mode == "split_gather") {
    choices.sequence_parallel = choices.tp > 1;
  } else if (mode == "ring_attn" || mode == "all_to_all") {
    choices.cp = size;
    if (mode == "all_to_all" && size > 1) choices.context = Context::Ulysses;
    const auto inner = settings.count(plugin + "inner_ring_size");
    if (inner && mode == "ring_attn" && *inner < size) {
      choices.context = Context::DoubleRing;
      choices.inner_ring = *inner;
    }
  } else {
    settings.refuse_all(fmt::format(
        "sequence_parallelism_mode {}: plans have split_gather, ring_attn and all_to_all", mode));
  }
}

void read_plugin_pipeline(ForeignSettings& settings, PlanFrame& frame, const std::string& plugin) {
  PlanChoices& choices = frame.plan.choices;
  const std::string style = settings.word(plugin + "pp_style").value_or("1f1b");
  choices.virtual_stages = settings.count(plugin + "num_model_chunks").value_or(1);
  const auto layers = settings.counts(plugin + "num_layers_per_stage");
  if (style == "interleaved") {
    choices.schedule = Schedule::Interleaved;
  } else if (style != "1f1b") {
    settings.refuse(plugin + "pp_style", "plans have 1f1b and interleaved");
  }
  if (choices.pp > 1) {
    choices.layers = layers;
  } else {
    choices.schedule = Schedule::OneForwardOneBackward;
    choices.virtual_stages = 1;
  }
}

// How many layers of each chunk are run again: all of them, or the first of each.
void read_plugin_recompute(ForeignSettings& settings, PlanFrame& frame, const std::string& plugin) {
  PlanChoices& choices = frame.plan.choices;
  const std::string config = plugin + "gradient_checkpoint_config";
  settings.word(config);
  settings.refuse(config + ".gradient_checkpointing_ratio", "plans count layers: give numbers");
  const auto again = settings.counts(config + ".num_ckpt_layers_per_stage");
  const bool everywhere = settings.has("model.gradient_checkpointing_enable()");
  settings.words("model.gradient_checkpointing_enable()");
  if (again.empty()) {
    if (everywhere) choices.recompute = {Recompute::Uniform, 1};
    return;
  }
  const std::int64_t chunks = choices.pp * choices.virtual_stages;
  const bool equal =
      std::ranges::all_of(again, [&](std::int64_t count) { return count == again.front(); });
  const bool all = again == choices.layers || (choices.layers.empty() && frame.layers() && equal &&
                                               again.front() * chunks == *frame.layers());
  if (all) {
    choices.recompute = {Recompute::Uniform, 1};
  } else if (equal && again.front() > 0) {
    choices.recompute = {Recompute::First, again.front()};
  } else if (!equal) {
    settings.refuse(config + ".num_ckpt_layers_per_stage",
                    "plans recompute as many layers of every chunk");
  }
}

void read_plugin_state(ForeignSettings& settings, PlanFrame& frame, const std::string& plugin) {
  PlanChoices& choices = frame.plan.choices;
  const Precision precision = frame.plan.precision;
  choices.zero = static_cast<int>(settings.count(plugin + "zero_stage", 0, 2).value_or(0));
  choices.overlap = settings.truth(plugin + "overlap_communication").value_or(true);
  choices.offload_optimizer = settings.truth(plugin + "cpu_offload").value_or(false);
  const auto zero_bucket = settings.count(plugin + "zero_bucket_size_in_m").value_or(12);
  const auto ddp_bucket = settings.count(plugin + "ddp_bucket_cap_mb").value_or(25);
  if (repeated_weights(choices) > 1) {
    choices.bucket = choices.zero > 0 ? bytes_of_elements(zero_bucket << 20, precision)
                                      : Bytes(ddp_bucket << 20);
    choices.bucket_per_replica = {};
  }
  // Gradients are added up in what they are computed in.
  if (precision != Precision::FP32) {
    choices.gradient_precision = precision == Precision::FP8 ? Precision::BF16 : precision;
  }
}

// It sets ZeRO 2 and overlap aside, by which it would hang.
void read_plugin_experts(ForeignSettings& settings, PlanFrame& frame, const std::string& plugin) {
  PlanChoices& choices = frame.plan.choices;
  frame.set_experts(settings.count(plugin + "ep_size").value_or(1), choices.tp);
  if (choices.ep > 1 && choices.cp > 1) {
    frame.plan.notes.push_back(
        "its replicas share experts out; the plan's parts of sequences do so before them");
  }
  choices.zero = std::min(choices.zero, 1);
  choices.overlap = false;
}

// Experts that replicas share out stand inside the stages, the rest of the replicas outside.
void read_plugin_order(ForeignSettings& settings, PlanFrame& frame, const std::string& plugin) {
  const PlanChoices& choices = frame.plan.choices;
  const bool experts = settings.has(plugin + "ep_size");
  const bool outside =
      settings.truth(plugin + (experts ? "moe_dp_outside" : "dp_outside")).value_or(true);
  if (!outside || choices.ep == choices.dp) return;
  if (choices.ep > 1 && choices.pp > 1) {
    return settings.refuse_all(
        "moe_dp_outside=True: ranks count through ep, then pp, then the other replicas, which "
        "plans cannot say; set it to False");
  }
  frame.place_pipeline_inside(settings);
}

}  // namespace

void read_colossal_ai(ForeignSettings& settings, PlanFrame& frame) {
  const bool experts = settings.has("MoeHybridParallelPlugin.tp_size");
  const std::string plugin = experts ? "MoeHybridParallelPlugin." : "HybridParallelPlugin.";
  frame.start("colossal-ai", "deepspeed", plugin_precision(settings, plugin));
  ImportedPlan& plan = frame.plan;
  PlanChoices& choices = plan.choices;
  if (!settings.has(plugin + "tp_size") || !settings.has(plugin + "pp_size")) {
    return settings.refuse_all(
        "expected HybridParallelPlugin(tp_size=, pp_size=, ...) or MoeHybridParallelPlugin(...); "
        "other plugins are not read");
  }
  choices.tp = settings.count(plugin + "tp_size").value_or(1);
  choices.pp = settings.count(plugin + "pp_size").value_or(1);
  read_plugin_sequence(settings, choices, plugin);
  frame.set_replicas(settings);
  read_plugin_state(settings, frame, plugin);
  if (experts) read_plugin_experts(settings, frame, plugin);
  read_plugin_order(settings, frame, plugin);
  read_plugin_pipeline(settings, frame, plugin);
  read_plugin_recompute(settings, frame, plugin);
  const auto size = settings.count(plugin + "microbatch_size");
  const auto number = settings.count(plugin + "num_microbatches");
  choices.microbatch = size.value_or(frame.wishes.microbatch.value_or(1));
  if (number) plan.global_batch = *number * choices.microbatch * choices.dp;
  if (settings.has("SEQUENCE")) plan.sequence = settings.count("SEQUENCE");
  for (const char* key : {"enable_flash_attention", "enable_fused_normalization",
                          "enable_jit_fused", "enable_all_optimization", "overlap_p2p",
                          "overlap_allgather", "parallel_output", "fp8_communication"}) {
    settings.set_aside(plugin + key);
  }
}

}  // namespace meshwright
