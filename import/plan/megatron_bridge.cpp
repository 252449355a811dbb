#include <fmt/format.h>

#include "import/plan/megatron_layout.h"
#include "import/plan/target_readers.h"

namespace meshwright {
namespace {

// A recipe's name, "bf16_mixed" or a call that makes it.
Precision bridge_precision(ForeignSettings& settings) {
  const std::string recipe = settings.word("mixed_precision").value_or("none");
  const auto has = [&](std::string_view part) { return recipe.find(part) != recipe.npos; };
  if (has("fp4")) settings.refuse("mixed_precision", "plans have no 4-bit products");
  if (has("fp8")) return Precision::FP8;
  if (has("bf16")) return Precision::BF16;
  if (has("fp16")) return Precision::FP16;
  if (recipe != "none") settings.refuse("mixed_precision", "expected such as bf16_mixed");
  return Precision::FP32;
}

void read_bridge_sizes(ForeignSettings& settings, ModelSizes& model) {
  model.layers = settings.count("model.num_layers");
  model.hidden = settings.count("model.hidden_size");
  model.heads = settings.count("model.num_attention_heads");
  model.kv_heads = settings.count("model.num_query_groups");
  if (!model.kv_heads) model.kv_heads = model.heads;
  model.ffn = settings.count("model.ffn_hidden_size");
  model.vocabulary = settings.count("model.vocab_size");
  if (model.layers) model.experts = settings.count("model.num_moe_experts").value_or(0);
}

void read_bridge_stages(ForeignSettings& settings, PlanFrame& frame) {
  PlanChoices& choices = frame.plan.choices;
  MegatronStages stages{.pp = choices.pp, .layers = frame.layers()};
  stages.layout = settings.word("model.pipeline_model_parallel_layout");
  stages.first = settings.count("model.num_layers_in_first_pipeline_stage", 0);
  stages.last = settings.count("model.num_layers_in_last_pipeline_stage", 0);
  stages.with_embedding =
      settings.truth("model.account_for_embedding_in_pipeline_split").value_or(false);
  stages.with_loss = settings.truth("model.account_for_loss_in_pipeline_split").value_or(false);
  stages.chunks = settings.count("model.virtual_pipeline_model_parallel_size");
  const auto result = stages_of(stages);
  if (const auto* reason = std::get_if<std::string>(&result)) return settings.refuse_all(*reason);
  const auto& [chunks, layers] = std::get<StageChoice>(result);
  choices.virtual_stages = chunks;
  if (chunks > 1) choices.schedule = Schedule::Interleaved;
  choices.layers = layers;
}

void read_bridge_recompute(ForeignSettings& settings, PlanChoices& choices) {
  const auto granularity = settings.word("model.recompute_granularity");
  const auto method = settings.word("model.recompute_method");
  const auto layers = settings.count("model.recompute_num_layers");
  const auto modules = settings.words("model.recompute_modules");
  if (granularity == "selective") {
    choices.recompute = {Recompute::Selective};
    if (!modules.empty() && modules != std::vector<std::string>{"core_attn"}) {
      settings.refuse("model.recompute_modules",
                      "plans recompute core_attn alone, or whole layers");
    }
  } else if (granularity == "full") {
    choices.recompute = {method == "block" ? Recompute::First : Recompute::Uniform,
                         layers.value_or(1)};
  } else if (granularity) {
    settings.refuse("model.recompute_granularity", "expected full or selective");
  }
}

void read_bridge_state(ForeignSettings& settings, PlanFrame& frame) {
  PlanChoices& choices = frame.plan.choices;
  choices.zero = settings.truth("ddp.use_distributed_optimizer").value_or(false) ? 1 : 0;
  const auto instances = settings.count("ddp.num_distributed_optimizer_instances").value_or(1);
  if (instances > 1 && choices.dp % instances == 0) choices.shard = choices.dp / instances;
  settings.refuse_unless("ddp.use_megatron_fsdp", {"false"}, "recipes with FSDP are not read");
  const bool overlap = settings.truth("ddp.overlap_grad_reduce").value_or(false);
  const auto bucket = settings.count("ddp.bucket_size", 1, std::int64_t{1} << 40);
  if (repeated_weights(choices) > 1) {
    choices.overlap = overlap;
    if (!overlap || bucket) {
      choices.bucket = overlap ? bytes_of_elements(*bucket, frame.plan.precision) : kOneBucket;
      choices.bucket_per_replica = {};
    }
  }
  if (const auto wide = settings.truth("mixed_precision.grad_reduce_in_fp32")) {
    const Precision precision = frame.plan.precision;
    choices.gradient_precision.reset();
    if (!*wide) {
      choices.gradient_precision = precision == Precision::FP8 ? Precision::BF16 : precision;
    }
  }
  choices.offload_optimizer = settings.truth("optimizer.optimizer_cpu_offload").value_or(false);
  if (settings.truth("dist.use_tp_pp_dp_mapping").value_or(false)) {
    frame.place_pipeline_inside(settings);
  }
}

}  // namespace

void read_megatron_bridge(ForeignSettings& settings, PlanFrame& frame) {
  frame.start("megatron-bridge", "megatron-core", bridge_precision(settings));
  ImportedPlan& plan = frame.plan;
  PlanChoices& choices = plan.choices;
  read_bridge_sizes(settings, plan.model);
  choices.tp = settings.count("model.tensor_model_parallel_size").value_or(1);
  choices.pp = settings.count("model.pipeline_model_parallel_size").value_or(1);
  choices.cp = settings.count("model.context_parallel_size").value_or(1);
  frame.set_context(settings, "model.cp_comm_type", "model.hierarchical_context_parallel_sizes");
  const auto ep = settings.count("model.expert_model_parallel_size").value_or(1);
  const auto etp = settings.count("model.expert_tensor_parallel_size").value_or(choices.tp);
  if (ep > 1 || settings.has("model.num_moe_experts")) frame.set_experts(ep, etp);
  choices.sequence_parallel =
      settings.truth("model.sequence_parallel").value_or(false) && choices.tp > 1;
  frame.set_replicas(settings);
  read_bridge_stages(settings, frame);
  read_bridge_recompute(settings, choices);
  read_bridge_state(settings, frame);
  settings.refuse_unless("model.fine_grained_activation_offloading", {"false"},
                         "plans offload activations of all modules or of none");
  if (settings.word("model.attention_backend").value_or("").ends_with("unfused")) {
    choices.kernels = KernelSet::Unfused;
  }
  frame.set_batch(settings, "train.micro_batch_size", "train.global_batch_size");
  plan.sequence = settings.has("dataset.seq_length") ? settings.count("dataset.seq_length")
                  : settings.has("dataset.sequence_length")
                      ? settings.count("dataset.sequence_length")
                      : settings.count("model.seq_length");
  for (const char* key :
       {"ddp.overlap_param_gather", "model.cross_entropy_loss_fusion", "comm_overlap",
        "comm_overlap.tp_comm_overlap", "optimizer.use_precision_aware_optimizer",
        "optimizer.use_distributed_optimizer", "model.moe_token_dispatcher_type",
        "model.moe_grouped_gemm"}) {
    settings.set_aside(key);
  }
}

}  // namespace meshwright
