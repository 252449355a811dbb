#include <fmt/format.h>

#include <numeric>

#include "import/plan/target_readers.h"

namespace meshwright {
namespace {

// How nanotron cuts a model into stages (models/base.py, build_model): blocks in their order, a
// block goes to a stage until what is before it exceeds the stage's share of the cost; a layer
// costs the products of attention and feed-forward, the head its own, all else nothing.
std::vector<std::int64_t> cut_by_cost(const ModelSizes& model, std::int64_t pp) {
  const double hidden = static_cast<double>(*model.hidden);
  const double per_head = static_cast<double>(*model.hidden / *model.heads);
  const double layer = 4 * static_cast<double>(*model.heads) * per_head * hidden +
                       3 * static_cast<double>(*model.ffn) * hidden;
  const double all =
      layer * static_cast<double>(*model.layers) + static_cast<double>(*model.vocabulary) * hidden;
  std::vector<std::int64_t> layers(static_cast<std::size_t>(pp));
  std::size_t stage = 0;
  double done = 0;
  for (std::int64_t i = 0; i < *model.layers; ++i) {
    ++layers[stage];
    done += layer;
    const double share = all * (static_cast<double>(stage + 1) / static_cast<double>(pp));
    if (done > share && stage + 1 < layers.size()) ++stage;
  }
  return layers;
}

void read_nanotron_model(ForeignSettings& settings, ModelSizes& model) {
  const std::string config = "model.model_config.";
  model.layers = settings.count(config + "num_hidden_layers");
  model.hidden = settings.count(config + "hidden_size");
  model.heads = settings.count(config + "num_attention_heads");
  model.kv_heads = settings.count(config + "num_key_value_heads");
  if (!model.kv_heads) model.kv_heads = model.heads;
  model.ffn = settings.count(config + "intermediate_size");
  model.vocabulary = settings.count(config + "vocab_size");
  if (settings.has(config + "moe_config.num_experts")) {
    model.experts = settings.count(config + "moe_config.num_experts");
  } else {
    model.experts = 0;
  }
}

void read_nanotron_stages(ForeignSettings& settings, PlanFrame& frame) {
  PlanChoices& choices = frame.plan.choices;
  const std::string engine = settings.word("parallelism.pp_engine").value_or("afab");
  if (engine == "afab") {
    choices.schedule = Schedule::GPipe;
  } else if (engine != "1f1b") {
    settings.refuse("parallelism.pp_engine", "expected 1f1b or afab");
  }
  if (choices.pp == 1) {
    choices.schedule = Schedule::OneForwardOneBackward;
    return;
  }
  const ModelSizes& model = frame.plan.model;
  if (!model.layers || !model.hidden || !model.heads || !model.ffn || !model.vocabulary) {
    return settings.refuse_all(
        "nanotron cuts stages by cost: model.model_config must say num_hidden_layers, hidden_size, "
        "num_attention_heads, intermediate_size and vocab_size");
  }
  choices.layers = cut_by_cost(model, choices.pp);
}

}  // namespace

void read_nanotron(ForeignSettings& settings, PlanFrame& frame) {
  const std::string type = settings.word("model.dtype").value_or("bfloat16");
  const auto precision = type == "bfloat16"  ? Precision::BF16
                         : type == "float16" ? Precision::FP16
                                             : Precision::FP32;
  if (precision == Precision::FP32 && type != "float32") {
    settings.refuse("model.dtype", "expected bfloat16, float16 or float32");
  }
  frame.start("nanotron", "megatron-core", precision);
  ImportedPlan& plan = frame.plan;
  PlanChoices& choices = plan.choices;
  read_nanotron_model(settings, plan.model);
  choices.tp = settings.count("parallelism.tp").value_or(1);
  choices.pp = settings.count("parallelism.pp").value_or(1);
  choices.cp = settings.count("parallelism.context_parallel_size").value_or(1);
  settings.refuse_unless("parallelism.expert_parallel_size", {"1"},
                         "its devices of experts are no replicas, as a plan's are");
  for (const std::string key : {"parallelism.dp", "parallelism.pp", "parallelism.tp"}) {
    if (!settings.has(key)) settings.refuse_all(key + ": is missing");
  }
  frame.set_replicas(settings, settings.count("parallelism.dp").value_or(1));
  const std::string mode = settings.word("parallelism.tp_mode").value_or("ALL_REDUCE");
  choices.sequence_parallel =
      (mode == "REDUCE_SCATTER" || mode == "reduce_scatter") && choices.tp > 1;
  read_nanotron_stages(settings, frame);
  if (settings.truth("parallelism.recompute_layer").value_or(false)) {
    choices.recompute = {Recompute::Uniform, 1};
  }
  choices.zero = settings.count("optimizer.zero_stage", 0, 3).value_or(0) > 0 ? 1 : 0;
  if (const auto wide = settings.truth("optimizer.accumulate_grad_in_fp32")) {
    choices.gradient_precision =
        *wide || precision == Precision::FP32 ? std::nullopt : std::optional(precision);
  }
  // ZeRO 1 reduces everything after the backward, DDP during it, in buckets.
  const auto bucket = settings.count("model.ddp_bucket_cap_mb", 1, 1 << 20).value_or(25);
  if (choices.dp > 1) {
    choices.overlap = choices.zero == 0;
    choices.bucket = choices.zero == 0 ? Bytes(bucket << 20) : kOneBucket;
    choices.bucket_per_replica = {};
  }
  choices.microbatch = settings.count("tokens.micro_batch_size").value_or(1);
  plan.global_batch = choices.microbatch * choices.dp *
                      settings.count("tokens.batch_accumulation_per_replica").value_or(1);
  plan.sequence = settings.count("tokens.sequence_length");
  for (const char* key :
       {"parallelism.tp_linear_async_communication", "parallelism.tp_recompute_allgather"}) {
    settings.set_aside(key);
  }
}

}  // namespace meshwright
