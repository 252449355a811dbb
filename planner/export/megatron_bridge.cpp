#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/export/buckets.h"
#include "planner/export/launch.h"
#include "planner/export/megatron_model.h"
#include "planner/export/quoting.h"
#include "simulator/choices/stage_axes.h"

namespace meshwright {
namespace {

// Fields of a part of the configuration, in the order in which they are added.
class FieldLines {
 public:
  explicit FieldLines(std::string before) : before_(std::move(before)) {}
  template <class T>
  void set(std::string_view name, const T& value) {
    text_ += fmt::format("{}{} = {}\n", before_, name, value);
  }
  void set(std::string_view name, bool value) { set(name, python_text(value)); }
  std::string text() && { return std::move(text_); }

 private:
  std::string before_, text_;
};

void add_bridge_positions(FieldLines& fields, const DecoderSpec& model) {
  const auto* rope = std::get_if<RopeAttributes>(&model.positions);
  fields.set("position_embedding_type", rope ? "\"rope\"" : "\"learned_absolute\"");
  if (!rope) return;
  fields.set("rotary_base", static_cast<std::int64_t>(rope->theta));
  fields.set("rotary_percent", number_text(static_cast<double>(rope->rotated) /
                                           static_cast<double>(model.head_size)));
  if (rope->scaling == "linear") {
    fields.set("seq_len_interpolation_factor", number_text(rope->factor));
  } else if (rope->scaling == "llama3") {
    fields.set("rope_scaling", true);
    fields.set("rope_scaling_factor", number_text(rope->factor));
  }
}

void add_bridge_experts(FieldLines& fields, const DecoderSpec& model) {
  const ExpertsSpec& experts = *model.experts;
  fields.set("num_moe_experts", experts.experts);
  fields.set("moe_router_topk", experts.choices);
  fields.set("moe_ffn_hidden_size", experts.width);
  fields.set("moe_router_pre_softmax", !experts.router.renormalize);
  if (experts.shared_width) {
    fields.set("moe_shared_expert_intermediate_size", *experts.shared_width);
  }
  if (const auto layers = megatron_sparse_layers(model)) {
    fields.set("moe_layer_freq", *layers);
  }
  const bool balanced = experts.router.balance > 0;
  fields.set("moe_router_load_balancing_type", balanced ? "\"seq_aux_loss\"" : "\"none\"");
  if (balanced) fields.set("moe_aux_loss_coeff", experts.router.balance);
  fields.set("moe_token_dispatcher_type", "\"alltoall\"");
  fields.set("moe_grouped_gemm", true);
}

std::string bridge_model(const Export& what) {
  const DecoderSpec& model = what.model;
  FieldLines fields("    model.");
  add_bridge_positions(fields, model);
  fields.set("ffn_hidden_size", model.ffn);
  fields.set("num_query_groups", model.kv_heads);
  fields.set("kv_channels", model.head_size);
  fields.set("seq_length", what.setting.batch.sequence);
  fields.set("vocab_size", model.vocabulary);
  fields.set("should_pad_vocab", true);
  fields.set("make_vocab_size_divisible_by", 1);
  fields.set("normalization", model.norm == OpKind::RmsNorm ? "\"RMSNorm\"" : "\"LayerNorm\"");
  fields.set("layernorm_epsilon", number_text(model.norm_attributes.epsilon));
  fields.set("gated_linear_unit", model.gated);
  fields.set("activation_func", model.gated ? "F.silu" : "F.gelu");
  fields.set("bias_activation_fusion", model.gated || model.function == Function::GeluTanh);
  fields.set("add_bias_linear", model.output_bias);
  fields.set("add_qkv_bias", model.qkv_bias);
  fields.set("qk_layernorm", model.qk_norm != QkNorm::None);
  fields.set("share_embeddings_and_output_weights", model.tied);
  fields.set("attention_dropout", number_text(model.attention_dropout));
  fields.set("hidden_dropout", number_text(model.residual_dropout));
  if (model.experts) add_bridge_experts(fields, model);
  fields.set("cross_entropy_loss_fusion", false);
  fields.set("attention_backend", what.choices.kernels == KernelSet::Unfused ? "AttnBackend.unfused"
                                                                             : "AttnBackend.flash");
  return std::move(fields).text();
}

void add_bridge_recompute(FieldLines& fields, const RecomputeChoice& recompute) {
  if (recompute.kind == Recompute::None) return;
  if (recompute.kind == Recompute::Selective) {
    fields.set("recompute_granularity", "\"selective\"");
    fields.set("recompute_modules", "[\"core_attn\"]");
    return;
  }
  fields.set("recompute_granularity", "\"full\"");
  fields.set("recompute_method", recompute.kind == Recompute::First ? "\"block\"" : "\"uniform\"");
  fields.set("recompute_num_layers", recompute.layers);
}

std::string bridge_parallel(const Export& what) {
  const PlanChoices& choices = what.choices;
  FieldLines fields("    model.");
  fields.set("tensor_model_parallel_size", choices.tp);
  fields.set("pipeline_model_parallel_size", choices.pp);
  fields.set("context_parallel_size", choices.cp);
  if (choices.cp > 1) {
    fields.set("cp_comm_type", quoted_text(megatron_context(choices)));
    const ContextDegrees context = context_degrees(choices);
    if (context.heads > 1 && context.ring > 1) {
      fields.set("hierarchical_context_parallel_sizes",
                 fmt::format("[{}, {}]", context.heads, context.ring));
    }
  }
  if (what.model.experts) {
    fields.set("expert_model_parallel_size", choices.ep);
    fields.set("expert_tensor_parallel_size", expert_tensor_degree(choices));
  }
  fields.set("sequence_parallel", choices.sequence_parallel && choices.tp > 1);
  if (choices.virtual_stages > 1) {
    fields.set("virtual_pipeline_model_parallel_size", choices.virtual_stages);
  }
  if (!has_even_layers(choices, what.setting)) {
    fields.set("pipeline_model_parallel_layout",
               quoted_text(megatron_layout(layers_of_chunks(choices, what.model.layers))));
  }
  add_bridge_recompute(fields, choices.recompute);
  return std::move(fields).text();
}

std::string bridge_state(const Export& what) {
  const PlanChoices& choices = what.choices;
  const bool shards = choices.zero > 0 && repeated_weights(choices) > 1;
  const bool overlaps = choices.overlap && repeated_weights(choices) > 1;
  FieldLines ddp("    cfg.ddp.");
  ddp.set("use_distributed_optimizer", shards);
  ddp.set("overlap_grad_reduce", overlaps);
  ddp.set("overlap_param_gather", false);
  if (overlaps) {
    ddp.set("bucket_size", bucket_elements(choices, what.setting.batch.precision));
  }
  const std::int64_t instances = shards ? choices.dp / choices.shard.value_or(choices.dp) : 1;
  ddp.set("num_distributed_optimizer_instances", instances);
  FieldLines optimizer("    cfg.optimizer.");
  optimizer.set("use_distributed_optimizer", shards);
  optimizer.set("use_precision_aware_optimizer", choices.offload_optimizer);
  optimizer.set("optimizer_cpu_offload", choices.offload_optimizer);
  FieldLines dist("    cfg.dist.");
  dist.set("use_tp_pp_dp_mapping", what.launch.order == RankOrder::TensorPipelineData);
  return std::move(ddp).text() + std::move(optimizer).text() + std::move(dist).text();
}

std::string bridge_step(const Export& what) {
  const BatchChoice& batch = what.setting.batch;
  FieldLines fields("    cfg.");
  fields.set("train.micro_batch_size", what.choices.microbatch);
  fields.set("train.global_batch_size", batch.global_batch);
  fields.set("train.train_iters", 50);
  fields.set("dataset.seq_length", batch.sequence);
  fields.set("tokenizer.tokenizer_type", "\"NullTokenizer\"");
  fields.set("tokenizer.vocab_size", what.model.vocabulary);
  return std::move(fields).text();
}

std::string bridge_precision(const Export& what) {
  const Precision precision = what.setting.batch.precision;
  if (precision == Precision::FP32) return "    cfg.mixed_precision = None\n";
  const std::string_view recipe = precision == Precision::BF16 ? "bf16_mixed"
                                  : precision == Precision::FP16
                                      ? "fp16_mixed"
                                      : "bf16_with_fp8_delayed_scaling_mixed";
  const bool wide =
      !what.choices.gradient_precision || *what.choices.gradient_precision == Precision::FP32;
  return fmt::format(
      "    cfg.mixed_precision = mixed_precision.{}()\n"
      "    cfg.mixed_precision.grad_reduce_in_fp32 = {}\n",
      recipe, python_text(wide));
}

std::string recipe_text(const Export& what) {
  std::string about;
  for (const char c : about_text(what)) {
    about += c;
    if (c == '\n') about += "# ";
  }
  const DecoderSpec& model = what.model;
  return fmt::format(
             "# {}\n"
             "import torch.nn.functional as F\n"
             "from megatron.bridge.models.gpt_provider import GPTModelProvider\n"
             "from megatron.bridge.recipes.common import _pretrain_common\n"
             "from megatron.bridge.training import mixed_precision\n"
             "from megatron.bridge.training.gpt_step import forward_step\n"
             "from megatron.bridge.training.pretrain import pretrain\n"
             "from megatron.core.transformer.enums import AttnBackend\n\n\n"
             "def config():\n"
             "    cfg = _pretrain_common()\n"
             "    model = GPTModelProvider(num_layers={}, hidden_size={}, "
             "num_attention_heads={})\n",
             about, model.layers, model.hidden, model.heads) +
         bridge_model(what) + bridge_parallel(what) + "    cfg.model = model\n" +
         bridge_step(what) + bridge_precision(what) + bridge_state(what) +
         "    return cfg\n\n\n"
         "if __name__ == \"__main__\":\n"
         "    pretrain(config(), forward_step)\n";
}

std::vector<ExportedFile> write_megatron_bridge(const Export& what) {
  NodeScript script{
      .about = about_text(what), .starter = torchrun_words(what.launch), .program = "recipe.py"};
  if (what.choices.tp * what.choices.cp > 1)
    script.environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};
  std::vector<ExportedFile> files = launch_files(what, script);
  files.push_back({"recipe.py", recipe_text(what)});
  return files;
}

Abilities bridge_abilities() {
  Abilities abilities = megatron_abilities();
  abilities.zero = {0, 1};
  return abilities;
}

}  // namespace

TargetWriter megatron_bridge_writer() {
  return {.target = {"megatron-bridge", "0.3.1", "megatron-core", "a recipe in Python"},
          .abilities = bridge_abilities(),
          .rules = megatron_rules(),
          .check_model = check_megatron_model,
          .write = write_megatron_bridge,
          .start = launch_command,
          .notes = megatron_notes,
          .bucket = megatron_bucket};
}

}  // namespace meshwright
