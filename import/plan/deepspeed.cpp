#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "import/plan/target_readers.h"

namespace meshwright {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
constexpr std::int64_t kUsualBucket = 500'000'000;  // elements, where nothing is said

Precision deepspeed_precision(ForeignSettings& settings) {
  const bool bf16 =
      settings.truth("bf16.enabled").value_or(settings.truth("bfloat16.enabled").value_or(false));
  const bool fp16 = settings.truth("fp16.enabled").value_or(false);
  if (bf16 && fp16) settings.refuse("fp16.enabled", "bf16.enabled is true too");
  if (settings.truth("torch_autocast.enabled").value_or(false)) {
    settings.refuse("torch_autocast.enabled", "plans have one precision for all of a step");
  }
  return bf16 ? Precision::BF16 : fp16 ? Precision::FP16 : Precision::FP32;
}

void read_offload(ForeignSettings& settings, PlanChoices& choices, const std::string& zero) {
  const std::string device = settings.word(zero + "offload_optimizer.device").value_or("none");
  choices.offload_optimizer = device == "cpu";
  if (device != "cpu" && device != "none") {
    settings.refuse(zero + "offload_optimizer.device", "plans offload to the host's memory");
  }
  if (device == "cpu" && settings.number(zero + "offload_optimizer.ratio").value_or(1.0) < 1.0) {
    settings.refuse(zero + "offload_optimizer.ratio", "plans offload all of it or nothing");
  }
  settings.refuse_unless(zero + "offload_param.device", {"none"}, "plans keep weights on devices");
}

void read_zero(ForeignSettings& settings, PlanFrame& frame) {
  PlanChoices& choices = frame.plan.choices;
  const std::string zero = "zero_optimization.";
  choices.zero = static_cast<int>(settings.count(zero + "stage", 0, 3).value_or(0));
  const bool overlap = settings.truth(zero + "overlap_comm").value_or(choices.zero == 3);
  const auto bucket =
      settings.count(zero + "reduce_bucket_size", 1, kMostElements).value_or(kUsualBucket);
  const auto ahead = settings.count(zero + "stage3_prefetch_bucket_size", 0, kMostElements);
  // Without ZeRO gradients are reduced after the backward, always in such pieces.
  choices.overlap = overlap && choices.zero > 0;
  choices.bucket =
      bytes_of_elements(choices.zero > 0 ? bucket : kUsualBucket, frame.plan.precision);
  choices.bucket_per_replica = {};
  if (choices.zero == 3 && ahead) choices.prefetch = (*ahead + bucket / 2) / bucket;
  if (const auto shard = settings.count(zero + "mics_shard_size", -1); shard && *shard > 0) {
    choices.shard = shard;
  }
  settings.refuse_unless(zero + "zero_hpz_partition_size", {"1"},
                         "plans have one group of replicas for all of the state");
  for (const char* key : {"zero_quantized_weights", "zero_quantized_gradients"}) {
    settings.refuse_unless(zero + key, {"false"}, "plans transfer what they compute in");
  }
  read_offload(settings, choices, zero);
  for (const char* key :
       {"allgather_bucket_size", "allgather_partitions", "reduce_scatter", "contiguous_gradients",
        "stage3_param_persistence_threshold", "stage3_max_live_parameters",
        "stage3_max_reuse_distance", "sub_group_size", "offload_optimizer.pin_memory",
        "round_robin_gradients"}) {
    settings.set_aside(zero + key);
  }
}

// What is left out follows from the others, as DeepSpeed has it.
void read_batch(ForeignSettings& settings, PlanFrame& frame) {
  PlanChoices& choices = frame.plan.choices;
  const auto all = settings.count("train_batch_size", 1, kMostElements);
  auto micro = settings.count("train_micro_batch_size_per_gpu");
  auto steps = settings.count("gradient_accumulation_steps", 1, kMostElements);
  if (!micro && frame.wishes.microbatch) micro = frame.wishes.microbatch;
  if (all && micro && steps && *all % (*micro * *steps) == 0) {
    const std::int64_t dp = *all / (*micro * *steps);
    if (frame.wishes.devices || frame.wishes.cluster_devices || frame.devices_per_node) {
      frame.set_replicas(settings);
      if (choices.dp != dp) {
        settings.refuse("train_batch_size",
                        fmt::format("is {} replicas x {} x {}, but the devices make {} replicas",
                                    dp, *micro, *steps, choices.dp));
      }
    } else {
      frame.set_replicas(settings, dp);
    }
  } else {
    frame.set_replicas(settings);
  }
  if (!micro && all) micro = *all / (choices.dp * steps.value_or(1));
  if (!micro || *micro < 1) {
    return settings.refuse_all(
        "train_micro_batch_size_per_gpu: no file says it; give it (--micro-batch 1)");
  }
  if (!steps) steps = all ? std::max<std::int64_t>(1, *all / (*micro * choices.dp)) : 1;
  choices.microbatch = *micro;
  frame.plan.global_batch = *micro * *steps * choices.dp;
  if (all && *all != *frame.plan.global_batch) {
    settings.refuse("train_batch_size", fmt::format("{} replicas x {} x {} are {}", choices.dp,
                                                    *micro, *steps, *frame.plan.global_batch));
  }
}

// AutoEP has whole experts, whatever tp is.
void read_experts_of_deepspeed(ForeignSettings& settings, PlanFrame& frame) {
  const auto ep = settings.count("expert_parallel.autoep_size").value_or(1);
  if (!settings.truth("expert_parallel.enabled").value_or(false)) return;
  frame.set_experts(ep, 1);
  settings.refuse_unless("expert_parallel.expert_tensor_parallel_size", {"1"},
                         "expected 1, all that AutoEP has");
  settings.set_aside("expert_parallel.preset_model");
}

void read_gradient_type(ForeignSettings& settings, PlanChoices& choices) {
  const auto type = settings.word("data_types.grad_accum_dtype");
  if (!type) return;
  if (*type == "fp32") {
    choices.gradient_precision.reset();
  } else if (*type == "bf16" || *type == "fp16") {
    choices.gradient_precision = parse_precision(*type);
  } else {
    settings.refuse("data_types.grad_accum_dtype", "expected fp32, bf16 or fp16");
  }
}

}  // namespace

// The keys of Accelerate's YAML, flat and under names of their own.
void read_deepspeed_plugin(ForeignSettings& settings, PlanFrame& frame) {
  PlanChoices& choices = frame.plan.choices;
  const std::string config = "deepspeed_config.";
  choices.zero = static_cast<int>(settings.count(config + "zero_stage", 0, 3).value_or(2));
  choices.overlap = choices.zero == 3;
  const std::string device = settings.word(config + "offload_optimizer_device").value_or("none");
  choices.offload_optimizer = device == "cpu";
  if (device != "cpu" && device != "none") {
    settings.refuse(config + "offload_optimizer_device", "plans offload to the host's memory");
  }
  settings.refuse_unless(config + "offload_param_device", {"none"},
                         "plans keep weights on devices");
  settings.set_aside(config + "zero3_init_flag");
  settings.set_aside(config + "zero3_save_16bit_model");
}

void read_deepspeed(ForeignSettings& settings, PlanFrame& frame) {
  // What the program that trains fills in.
  const std::vector<std::string> open = settings.leave_out("auto");
  frame.start("deepspeed", "deepspeed", deepspeed_precision(settings));
  if (!open.empty()) {
    frame.plan.notes.push_back(
        fmt::format("\"auto\" is filled in by the program that trains, and taken as left out: {}",
                    fmt::join(open, ", ")));
  }
  PlanChoices& choices = frame.plan.choices;
  if (const auto tp = settings.count("tensor_parallel.autotp_size", 0)) {
    choices.tp = std::max<std::int64_t>(1, *tp);
  }
  choices.cp = settings.count("sequence_parallel_size").value_or(1);
  if (choices.cp > 1) choices.context = Context::Ulysses;
  read_batch(settings, frame);
  read_zero(settings, frame);
  read_experts_of_deepspeed(settings, frame);
  read_gradient_type(settings, choices);
  for (const char* key : {"partition_activations", "cpu_checkpointing"}) {
    settings.refuse_unless(std::string("activation_checkpointing.") + key, {"false"},
                           "plans keep what is recomputed from whole, on the device");
  }
  for (const char* key : {"communication_data_type", "seq_parallel_communication_data_type",
                          "data_parallel_size", "tensor_parallel.tp_overlap_comm",
                          "prescale_gradients", "pipeline.activation_checkpoint_interval"}) {
    settings.set_aside(key);
  }
}

}  // namespace meshwright
