#include <fmt/format.h>

#include <algorithm>

#include "import/plan/target_readers.h"

namespace meshwright {
namespace {

Precision accelerate_precision(ForeignSettings& settings) {
  const std::string type = settings.word("mixed_precision").value_or("no");
  if (type == "bf16") return Precision::BF16;
  if (type == "fp16") return Precision::FP16;
  if (type == "fp8") return Precision::FP8;
  if (type != "no" && type != "false") {
    settings.refuse("mixed_precision", "expected no, bf16, fp16 or fp8");
  }
  return Precision::FP32;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

// How replicas share out state, by FSDP's first version.
void read_sharding(ForeignSettings& settings, PlanChoices& choices, std::int64_t per_node) {
  const std::string key = "fsdp_config.fsdp_sharding_strategy";
  const std::string strategy = upper(settings.word(key).value_or("FULL_SHARD"));
  const bool hybrid = strategy.starts_with("HYBRID_SHARD");
  if (strategy == "NO_SHARD" || strategy == "3") return;
  // Weights that stay gathered from the forward to the backward are ZeRO 2.
  const bool frees = strategy == "FULL_SHARD" || strategy == "1" || strategy == "HYBRID_SHARD";
  choices.zero = frees ? 3 : 2;
  if (hybrid) choices.shard = per_node;
  if (!hybrid && strategy != "FULL_SHARD" && strategy != "SHARD_GRAD_OP" && strategy != "1" &&
      strategy != "2") {
    settings.refuse(key,
                    "expected FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or "
                    "HYBRID_SHARD_ZERO2");
  }
}

void read_fsdp(ForeignSettings& settings, PlanFrame& frame) {
  PlanChoices& choices = frame.plan.choices;
  const std::string sizes = "parallelism_config.parallelism_config_";
  choices.tp = settings.count(sizes + "tp_size").value_or(1);
  choices.cp = settings.count(sizes + "cp_size").value_or(1);
  const auto rotation = settings.word(sizes + "cp_comm_strategy");
  settings.refuse_unless(sizes + "sp_size", {"1"},
                         "devices share heads out with distributed_type DEEPSPEED alone");
  const auto replicate = settings.count(sizes + "dp_replicate_size");
  const auto shard = settings.count(sizes + "dp_shard_size");
  if (replicate || shard) {
    frame.set_replicas(settings, replicate.value_or(1) * shard.value_or(1));
  } else {
    frame.set_replicas(settings);
  }
  if (rotation.value_or("allgather") == "allgather") frame.note_gathered_keys();
  const bool second = settings.count("fsdp_config.fsdp_version").value_or(1) == 2;
  if (second) {
    const bool frees = settings.truth("fsdp_config.fsdp_reshard_after_forward").value_or(true);
    choices.zero = frees ? 3 : 2;
  } else {
    read_sharding(settings, choices, frame.devices_per_node.value_or(choices.dp));
  }
  if (replicate && shard && *replicate > 1) choices.shard = shard;
  if (shard && *shard == 1 && choices.cp == 1) choices.zero = 0;
  // Gradients are reduced in what they are computed in.
  const Precision precision = frame.plan.precision;
  if (precision != Precision::FP32) {
    choices.gradient_precision = precision == Precision::FP8 ? Precision::BF16 : precision;
  }
  settings.refuse_unless("fsdp_config.fsdp_offload_params", {"false"},
                         "plans offload the optimizer, not weights and gradients with it");
  if (settings.truth("fsdp_config.fsdp_activation_checkpointing").value_or(false)) {
    choices.recompute = {Recompute::Uniform, 1};
  }
  for (const char* key :
       {"fsdp_auto_wrap_policy", "fsdp_backward_prefetch", "fsdp_forward_prefetch",
        "fsdp_transformer_layer_cls_to_wrap", "fsdp_min_num_params", "fsdp_use_orig_params"}) {
    settings.set_aside(std::string("fsdp_config.") + key);
  }
}

// The few options of Megatron-LM that Accelerate hands on.
void read_megatron_plugin(ForeignSettings& settings, PlanFrame& frame) {
  PlanChoices& choices = frame.plan.choices;
  const std::string config = "megatron_lm_config.megatron_lm_";
  choices.tp = settings.count(config + "tp_degree").value_or(1);
  choices.pp = settings.count(config + "pp_degree").value_or(1);
  choices.cp = settings.count(config + "context_parallel_size").value_or(1);
  const auto ep = settings.count(config + "expert_model_parallel_size").value_or(1);
  const auto etp = settings.count(config + "expert_tensor_parallel_size").value_or(choices.tp);
  if (ep > 1) frame.set_experts(ep, etp);
  choices.sequence_parallel =
      settings.truth(config + "sequence_parallelism").value_or(false) && choices.tp > 1;
  choices.zero = settings.truth(config + "use_distributed_optimizer").value_or(false) ? 1 : 0;
  if (settings.truth(config + "recompute_activations").value_or(false)) {
    choices.recompute = {Recompute::Selective};
  }
  frame.set_replicas(settings);
  if (repeated_weights(choices) > 1) {
    choices.overlap = false;
    choices.bucket = kOneBucket;
    choices.bucket_per_replica = {};
  }
  if (const auto microbatches = settings.count(config + "num_micro_batches")) {
    frame.plan.global_batch = *microbatches * choices.dp * frame.wishes.microbatch.value_or(1);
  }
}

}  // namespace

void read_accelerate(ForeignSettings& settings, PlanFrame& frame) {
  const Precision precision = accelerate_precision(settings);
  const std::string type = upper(settings.word("distributed_type").value_or("NO"));
  const auto processes = settings.count("num_processes");
  const auto machines = settings.count("num_machines").value_or(1);
  if (processes) {
    frame.nodes = machines;
    frame.devices_per_node = std::max<std::int64_t>(1, *processes / machines);
  }
  if (type == "FSDP") {
    frame.start("accelerate", "fsdp", precision);
    if (settings.count("fsdp_config.fsdp_version").value_or(1) == 2) {
      frame.start("accelerate", "fsdp2", precision);
    }
    read_fsdp(settings, frame);
  } else if (type == "DEEPSPEED") {
    frame.start("accelerate", "deepspeed", precision);
    if (settings.has("deepspeed_config.deepspeed_config_file")) {
      settings.refuse("deepspeed_config.deepspeed_config_file",
                      "import that file itself, which says the plan");
    }
    PlanChoices& choices = frame.plan.choices;
    choices.cp = settings.count("parallelism_config.parallelism_config_sp_size").value_or(1);
    if (choices.cp > 1) choices.context = Context::Ulysses;
    frame.set_replicas(settings);
    read_deepspeed_plugin(settings, frame);
  } else if (type == "MEGATRON_LM") {
    frame.start("accelerate", "megatron-core", precision);
    read_megatron_plugin(settings, frame);
  } else if (type == "MULTI_GPU" || type == "NO") {
    frame.start("accelerate", "fsdp", precision);
    frame.set_replicas(settings);
  } else {
    frame.start("accelerate", "fsdp", precision);
    settings.refuse("distributed_type", "expected FSDP, DEEPSPEED, MEGATRON_LM or MULTI_GPU");
  }
  PlanChoices& choices = frame.plan.choices;
  choices.microbatch = frame.wishes.microbatch.value_or(1);
  const std::string steps = "gradient_accumulation_steps";
  const auto accumulated =
      settings.has(steps) ? settings.count(steps) : settings.count("deepspeed_config." + steps);
  if (!frame.plan.global_batch) {
    frame.plan.global_batch = choices.microbatch * choices.dp * accumulated.value_or(1);
  }
}

}  // namespace meshwright
