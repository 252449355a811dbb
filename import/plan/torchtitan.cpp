#include <fmt/format.h>

#include <algorithm>

#include "import/plan/target_readers.h"

namespace meshwright {
namespace {

Precision torchtitan_precision(ForeignSettings& settings) {
  // "float8" in TOML, Float8LinearConverter.Config() in Python.
  for (const char* key : {"model.converters", "model_spec.converters"}) {
    const auto converters = settings.words(key);
    const bool fp8 = std::ranges::any_of(
        converters, [](const std::string& name) { return name.find("loat8") != name.npos; });
    if (fp8) return Precision::FP8;
    if (!converters.empty()) settings.refuse(key, "plans know float8 alone");
  }
  const std::string type = settings.word("training.mixed_precision_param").value_or("bfloat16");
  if (type != "bfloat16" && type != "float32") {
    settings.refuse("training.mixed_precision_param", "expected bfloat16 or float32");
  }
  settings.refuse_unless("training.dtype", {"float32"},
                         "plans keep weights for the update in 32 bits");
  return type == "bfloat16" ? Precision::BF16 : Precision::FP32;
}

// Replicas, and how they share out state.
void read_data_parallel(ForeignSettings& settings, PlanFrame& frame) {
  PlanChoices& choices = frame.plan.choices;
  const auto replicate = settings.count("parallelism.data_parallel_replicate_degree").value_or(1);
  const auto shard = settings.count("parallelism.data_parallel_shard_degree", -1).value_or(-1);
  if (shard >= 1) {
    frame.set_replicas(settings, replicate * shard);
  } else {
    frame.set_replicas(settings);  // -1: what is left
    if (choices.dp % replicate != 0) {
      return settings.refuse("parallelism.data_parallel_replicate_degree",
                             fmt::format("does not divide the {} replicas", choices.dp));
    }
  }
  const std::int64_t sharded = choices.dp / replicate;
  const std::string reshard =
      settings.word("parallelism.fsdp_reshard_after_forward").value_or("default");
  if (reshard != "default" && reshard != "always" && reshard != "never") {
    settings.refuse("parallelism.fsdp_reshard_after_forward", "expected default, always or never");
  }
  if (sharded == 1) return;
  // Weights that stay gathered from the forward to the backward are ZeRO 2.
  const bool frees = reshard == "always" || (reshard == "default" && choices.pp == 1);
  choices.zero = frees ? 3 : 2;
  if (replicate > 1) choices.shard = sharded;
}

// Embedding and head count as layers of the first and the last chunk: 1 each where nothing is said.
std::vector<std::int64_t> weighted_layers(std::int64_t layers, std::int64_t chunks,
                                          std::int64_t first, std::int64_t last) {
  const std::int64_t all = layers + first + last;
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < chunks; ++i) {
    result.push_back(all / chunks + (i < all % chunks ? 1 : 0) - (i == 0 ? first : 0) -
                     (i + 1 == chunks ? last : 0));
  }
  return result;
}

// Lists of modules: how many of each are layers.
std::vector<std::int64_t> named_layers(ForeignSettings& settings, const std::string& key) {
  std::vector<std::int64_t> layers;
  for (std::size_t part = 0; settings.has(fmt::format("{}[{}]", key, part)); ++part) {
    const auto modules = settings.words(fmt::format("{}[{}]", key, part));
    layers.push_back(std::ranges::count_if(
        modules, [](const std::string& name) { return name.starts_with("layers."); }));
  }
  settings.words(key);
  return layers;
}

std::optional<Schedule> schedule_of(ForeignSettings& settings) {
  const std::string name = settings.word("parallelism.pipeline_parallel_schedule").value_or("1F1B");
  std::string lower = name;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower == "1f1b") return Schedule::OneForwardOneBackward;
  if (lower == "gpipe") return Schedule::GPipe;
  if (lower == "interleaved1f1b") return Schedule::Interleaved;
  settings.refuse("parallelism.pipeline_parallel_schedule",
                  "plans have 1F1B, GPipe and Interleaved1F1B");
  return {};
}

void read_pipeline(ForeignSettings& settings, PlanFrame& frame) {
  PlanChoices& choices = frame.plan.choices;
  const auto first =
      settings.count("parallelism.pipeline_parallel_first_stage_less_layers", 0).value_or(1);
  const auto last =
      settings.count("parallelism.pipeline_parallel_last_stage_less_layers", 0).value_or(1);
  const auto each = settings.count("parallelism.pipeline_parallel_layers_per_stage");
  const auto named = named_layers(settings, "parallelism.module_fqns_per_model_part");
  const auto schedule = schedule_of(settings);
  settings.refuse_unless("parallelism.pipeline_parallel_schedule_csv", {""},
                         "schedules of files are not read");
  if (choices.pp == 1 || !schedule) return;
  choices.schedule = *schedule;
  const bool several = *schedule == Schedule::Interleaved;
  if (!named.empty()) {
    choices.layers = named;
  } else if (!frame.layers()) {
    return settings.refuse_all(
        "torchtitan cuts stages by the layers of the model: no file says them; give --model");
  } else {
    const std::int64_t weights = *frame.layers() + first + last;
    const std::int64_t chunks =
        each ? (weights + *each - 1) / *each : choices.pp * (several ? 2 : 1);
    choices.layers = weighted_layers(*frame.layers(), chunks, first, last);
  }
  const auto chunks = static_cast<std::int64_t>(choices.layers.size());
  choices.virtual_stages = chunks / choices.pp;
  if (chunks % choices.pp != 0 || (choices.virtual_stages > 1) != several) {
    settings.refuse_all(fmt::format("{} chunks cannot be stages of pp={} by the schedule {}",
                                    chunks, choices.pp, to_text(*schedule)));
  }
}

// Several rounds of a pipeline in a step drain it each time, which plans do not.
void read_titan_batch(ForeignSettings& settings, PlanFrame& frame) {
  PlanChoices& choices = frame.plan.choices;
  const auto local = settings.count("training.local_batch_size").value_or(8);
  const auto all = settings.count("training.global_batch_size", -1, std::int64_t{1} << 40);
  const auto micro = settings.count("parallelism.pipeline_parallel_microbatch_size").value_or(1);
  const std::int64_t a_round = local * choices.dp;
  frame.plan.global_batch = all && *all > 0 ? *all : a_round;
  choices.microbatch = choices.pp > 1 ? micro : local;
  if (*frame.plan.global_batch % a_round != 0) {
    settings.refuse(
        "training.global_batch_size",
        fmt::format("expected a multiple of {}, which is a round of all replicas", a_round));
  } else if (choices.pp > 1 && *frame.plan.global_batch != a_round) {
    settings.refuse("training.global_batch_size",
                    fmt::format("is {} rounds of a pipeline of {} samples; plans have one round",
                                *frame.plan.global_batch / a_round, a_round));
  }
}

// The policy object of Python: FullAC.Config(), SelectiveAC.Config() or None.
void read_policy(ForeignSettings& settings, PlanChoices& choices) {
  const bool none = settings.is_null("activation_checkpoint");
  const std::string policy =
      settings.word("activation_checkpoint").value_or(none ? "" : "SelectiveAC.Config()");
  if (policy == "FullAC.Config()") {
    choices.recompute = {Recompute::Uniform, 1};
  } else if (policy == "SelectiveAC.Config()") {
    choices.recompute = {Recompute::Products};
  } else if (!policy.empty()) {
    settings.refuse("activation_checkpoint", "plans know FullAC, SelectiveAC and None");
  }
}

void read_checkpointing(ForeignSettings& settings, PlanChoices& choices) {
  const std::string mode = settings.word("activation_checkpoint.mode").value_or("selective");
  const std::string option =
      settings.word("activation_checkpoint.selective_ac_option").value_or("2");
  if (mode == "full" || (mode == "selective" && option == "1")) {
    choices.recompute = {Recompute::Uniform, 1};
  } else if (mode == "selective" && option == "op") {
    choices.recompute = {Recompute::Products};
  } else if (mode == "selective") {
    settings.refuse_all(
        fmt::format("activation_checkpoint.selective_ac_option {}: plans do not recompute one "
                    "layer of every {}",
                    option, option));
  } else if (mode != "none") {
    settings.refuse("activation_checkpoint.mode", "plans know none, full and selective by op");
  }
}

void read_titan(ForeignSettings& settings, PlanFrame& frame, bool python) {
  frame.start("torchtitan", "fsdp2", torchtitan_precision(settings));
  ImportedPlan& plan = frame.plan;
  PlanChoices& choices = plan.choices;
  choices.tp = settings.count("parallelism.tensor_parallel_degree").value_or(1);
  choices.pp = settings.count("parallelism.pipeline_parallel_degree").value_or(1);
  choices.cp = settings.count("parallelism.context_parallel_degree").value_or(1);
  frame.note_gathered_keys();
  const auto ep = settings.count("parallelism.expert_parallel_degree").value_or(1);
  const auto etp = settings.count("parallelism.expert_tensor_parallel_degree").value_or(1);
  if (ep > 1) frame.set_experts(ep, etp);
  choices.sequence_parallel = choices.tp > 1;
  if (const auto split = settings.truth("parallelism.enable_sequence_parallel"); split && !*split) {
    choices.sequence_parallel = false;
  }
  read_data_parallel(settings, frame);
  read_pipeline(settings, frame);
  read_titan_batch(settings, frame);
  if (python) {
    read_policy(settings, choices);
  } else {
    read_checkpointing(settings, choices);
  }
  plan.sequence = settings.count("training.seq_len").value_or(2048);
  settings.refuse_unless("training.enable_cpu_offload", {"false"},
                         "plans offload the optimizer, not weights and gradients with it");
  settings.refuse_unless("training.mixed_precision_reduce", {"float32"},
                         "expected float32, all that torchtitan has");
  // What it calls llama3 turns heads as llama 3.1 does.
  if (const auto name = settings.word("model.name")) {
    plan.model_name =
        (*name == "llama3" ? "llama3.1" : *name) + "-" + settings.word("model.flavor").value_or("");
  }
  for (const char* key :
       {"compile.enable", "compile.components", "parallelism.enable_async_tensor_parallel",
        "parallelism.disable_loss_parallel", "parallelism.context_parallel_rotate_method",
        "parallelism.context_parallel_load_balancer", "parallelism.enable_compiled_autograd"}) {
    settings.set_aside(key);
  }
}

}  // namespace

void read_torchtitan(ForeignSettings& settings, PlanFrame& frame) {
  read_titan(settings, frame, false);
}

void read_torchtitan_python(ForeignSettings& settings, PlanFrame& frame) {
  for (const char* key : {"training.num_tokens_per_microbatch_per_dp_rank",
                          "training.num_tokens_per_train_step", "training.max_context_length"}) {
    settings.refuse(key, "is of a version after 0.3, which counts batches in tokens");
  }
  read_titan(settings, frame, true);
}

}  // namespace meshwright
