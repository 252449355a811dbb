#include <fmt/format.h>

#include "planner/export/buckets.h"
#include "planner/export/launch.h"
#include "planner/export/megatron_model.h"
#include "planner/export/quoting.h"
#include "simulator/choices/model_layers.h"
#include "simulator/choices/stage_axes.h"

namespace meshwright {
namespace {

// "--name value" words, in the order in which they are added.
class Options {
 public:
  void flag(std::string name) { words_.push_back(std::move(name)); }
  void flag_if(bool wanted, std::string name) {
    if (wanted) flag(std::move(name));
  }
  template <class T>
  void value(std::string name, const T& value) {
    words_.push_back(std::move(name));
    words_.push_back(fmt::format("{}", value));
  }
  template <class T>
  void values(std::string name, const std::vector<T>& values) {
    words_.push_back(std::move(name));
    for (const T& value : values) words_.push_back(fmt::format("{}", value));
  }
  std::vector<std::string> words() && { return std::move(words_); }

 private:
  std::vector<std::string> words_;
};

void add_rope(Options& options, const RopeAttributes& rope, std::int64_t head_size) {
  options.value("--position-embedding-type", "rope");
  options.value("--rotary-base", static_cast<std::int64_t>(rope.theta));
  options.value("--rotary-percent",
                static_cast<double>(rope.rotated) / static_cast<double>(head_size));
  if (rope.scaling == "linear") {
    options.value("--rotary-seq-len-interpolation-factor", static_cast<std::int64_t>(rope.factor));
  } else if (rope.scaling == "llama3") {
    options.flag("--use-rope-scaling");
    options.value("--rope-scaling-factor", rope.factor);
  }
}

void add_positions(Options& options, const DecoderSpec& model, std::int64_t sequence) {
  if (const auto* rope = std::get_if<RopeAttributes>(&model.positions)) {
    add_rope(options, *rope, model.head_size);
    options.value("--max-position-embeddings", sequence);
    return;
  }
  options.value("--position-embedding-type", "learned_absolute");
  options.value("--max-position-embeddings", std::get<LearnedPositions>(model.positions).rows);
}

void add_experts(Options& options, const DecoderSpec& model) {
  const ExpertsSpec& experts = *model.experts;
  options.value("--num-experts", experts.experts);
  options.value("--moe-router-topk", experts.choices);
  options.value("--moe-ffn-hidden-size", experts.width);
  options.flag_if(!experts.router.renormalize, "--moe-router-pre-softmax");
  if (experts.shared_width) {
    options.value("--moe-shared-expert-intermediate-size", *experts.shared_width);
  }
  if (const auto layers = megatron_sparse_layers(model)) {
    options.value("--moe-layer-freq", *layers);
  }
  if (experts.router.balance > 0) {
    options.value("--moe-router-load-balancing-type", "seq_aux_loss");
    options.value("--moe-aux-loss-coeff", experts.router.balance);
  } else {
    options.value("--moe-router-load-balancing-type", "none");
  }
  options.value("--moe-token-dispatcher-type", "alltoall");
  options.flag("--moe-grouped-gemm");
}

std::vector<std::string> model_options(const Export& what) {
  const DecoderSpec& model = what.model;
  Options options;
  options.value("--num-layers", model.layers);
  options.value("--hidden-size", model.hidden);
  options.value("--ffn-hidden-size", model.ffn);
  options.value("--num-attention-heads", model.heads);
  options.value("--kv-channels", model.head_size);
  if (model.heads != model.kv_heads) {
    options.flag("--group-query-attention");
    options.value("--num-query-groups", model.kv_heads);
  }
  add_positions(options, model, what.setting.batch.sequence);
  options.value("--normalization", model.norm == OpKind::RmsNorm ? "RMSNorm" : "LayerNorm");
  options.value("--norm-epsilon", model.norm_attributes.epsilon);
  options.flag_if(model.gated, "--swiglu");
  options.flag_if(model.function == Function::Gelu, "--no-bias-gelu-fusion");
  options.flag_if(!model.output_bias, "--disable-bias-linear");
  options.flag_if(model.qkv_bias && !model.output_bias, "--add-qkv-bias");
  options.flag_if(model.qk_norm != QkNorm::None, "--qk-layernorm");
  options.flag_if(!model.tied, "--untie-embeddings-and-output-weights");
  options.value("--attention-dropout", model.attention_dropout);
  options.value("--hidden-dropout", model.residual_dropout);
  options.value("--make-vocab-size-divisible-by", 1);
  if (model.experts) add_experts(options, model);
  return std::move(options).words();
}

void add_stages(Options& options, const Export& what) {
  const PlanChoices& choices = what.choices;
  if (!has_even_layers(choices, what.setting)) {
    options.value("--pipeline-model-parallel-layout",
                  megatron_layout(layers_of_chunks(choices, what.model.layers)));
  } else if (choices.virtual_stages > 1) {
    options.value("--num-virtual-stages-per-pipeline-rank", choices.virtual_stages);
  }
}

void add_state(Options& options, const PlanChoices& choices) {
  if (repeated_weights(choices) == 1 || choices.zero == 0) return;
  options.flag("--use-distributed-optimizer");
  if (choices.shard && *choices.shard != choices.dp) {
    options.value("--num-distributed-optimizer-instances", choices.dp / *choices.shard);
  }
  if (choices.zero < 2) return;
  options.flag("--use-megatron-fsdp");
  options.value("--data-parallel-sharding-strategy",
                choices.zero == 2 ? "optim_grads" : "optim_grads_params");
  options.value("--ckpt-format", "fsdp_dtensor");
  options.flag("--no-gradient-accumulation-fusion");
  options.flag_if(choices.zero == 3, "--overlap-param-gather");
}

void add_context(Options& options, const PlanChoices& choices) {
  options.value("--context-parallel-size", choices.cp);
  if (choices.cp == 1) return;
  options.value("--cp-comm-type", megatron_context(choices));
  const ContextDegrees context = context_degrees(choices);
  if (context.heads == 1 || context.ring == 1) return;
  options.values("--hierarchical-context-parallel-sizes", std::vector{context.heads, context.ring});
}

void add_recompute(Options& options, const RecomputeChoice& recompute) {
  if (recompute.kind == Recompute::None) return;
  if (recompute.kind == Recompute::Selective) {
    options.value("--recompute-granularity", "selective");
    options.value("--recompute-modules", "core_attn");
    return;
  }
  options.value("--recompute-granularity", "full");
  options.value("--recompute-method", recompute.kind == Recompute::First ? "block" : "uniform");
  options.value("--recompute-num-layers", recompute.layers);
}

std::vector<std::string> parallel_options(const Export& what) {
  const PlanChoices& choices = what.choices;
  Options options;
  options.value("--tensor-model-parallel-size", choices.tp);
  options.value("--pipeline-model-parallel-size", choices.pp);
  add_context(options, choices);
  if (what.model.experts) {
    options.value("--expert-model-parallel-size", choices.ep);
    options.value("--expert-tensor-parallel-size", expert_tensor_degree(choices));
  }
  options.flag_if(choices.sequence_parallel && choices.tp > 1, "--sequence-parallel");
  options.flag_if(what.launch.order == RankOrder::TensorPipelineData, "--use-tp-pp-dp-mapping");
  add_stages(options, what);
  add_state(options, choices);
  if (repeated_weights(choices) > 1 && choices.overlap) {
    options.flag("--overlap-grad-reduce");
    if (choices.zero < 3) {
      options.value("--ddp-bucket-size", bucket_elements(choices, what.setting.batch.precision));
    }
  }
  add_recompute(options, choices.recompute);
  if (choices.offload_optimizer) {
    options.flag("--use-precision-aware-optimizer");
    options.flag("--optimizer-cpu-offload");
    options.value("--optimizer-offload-fraction", 1.0);
  }
  return std::move(options).words();
}

void add_precision(Options& options, const Export& what) {
  const Precision precision = what.setting.batch.precision;
  if (precision == Precision::FP32) return;
  options.flag(precision == Precision::FP16 ? "--fp16" : "--bf16");
  if (precision == Precision::FP8) {
    options.value("--fp8-format", "hybrid");
    options.value("--fp8-recipe", "delayed");
  }
  const bool wide =
      !what.choices.gradient_precision || *what.choices.gradient_precision == Precision::FP32;
  options.flag_if(wide, "--accumulate-allreduce-grads-in-fp32");
  options.flag_if(!wide && precision != Precision::FP16, "--grad-reduce-in-bf16");
}

std::vector<std::string> step_options(const Export& what) {
  Options options;
  options.value("--micro-batch-size", what.choices.microbatch);
  options.value("--global-batch-size", what.setting.batch.global_batch);
  options.value("--seq-length", what.setting.batch.sequence);
  add_precision(options, what);
  options.value("--attention-backend",
                what.choices.kernels == KernelSet::Unfused ? "unfused" : "flash");
  return std::move(options).words();
}

std::vector<std::string> run_options() {
  Options options;
  options.value("--train-iters", 50);
  options.value("--lr", "1e-4");
  options.value("--log-interval", 1);
  options.flag("--log-throughput");
  options.value("--eval-iters", 0);
  return std::move(options).words();
}

// Its tokenizer that reads nothing counts one token more than it is told.
std::vector<std::string> mock_data_options(const Export& what) {
  Options options;
  options.flag("--mock-data");
  options.value("--tokenizer-type", "NullTokenizer");
  options.value("--vocab-size", what.model.vocabulary - 1);
  return std::move(options).words();
}

std::vector<ExportedFile> write_megatron_lm(const Export& what) {
  NodeScript script{
      .about = about_text(what) +
               "\nWith words of your own, these stand in place of the random tokens:\n"
               "  bash train.sh --data-path PREFIX --tokenizer-type HuggingFaceTokenizer "
               "--tokenizer-model PATH",
      .needs = {{"MEGATRON", "the folder of Megatron-LM " + what.target.version}},
      .starter = torchrun_words(what.launch),
      .program = "\"$MEGATRON\"/pretrain_gpt.py",
      .options = {{"model", "The model", model_options(what)},
                  {"parallel", "The plan", parallel_options(what)},
                  {"step", "A step", step_options(what)},
                  {"run", "How long and how fast it learns: yours to change", run_options()}},
      .data = {"data", "What it reads: random tokens", mock_data_options(what)}};
  // Megatron-LM asserts both.
  const bool fsdp = what.choices.zero >= 2 && repeated_weights(what.choices) > 1;
  if (!fsdp && what.choices.tp * what.choices.cp > 1)
    script.environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};
  if (fsdp) script.environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", "32"}};
  return launch_files(what, script);
}

std::string start_megatron_lm(const Export& what) {
  return "MEGATRON=/path/to/Megatron-LM " + launch_command(what);
}

}  // namespace

TargetWriter megatron_lm_writer() {
  return {.target = {"megatron-lm", "core_v0.16.1", "megatron-core",
                     "a script with the options of pretrain_gpt.py"},
          .abilities = megatron_abilities(),
          .rules = megatron_rules(),
          .check_model = check_megatron_model,
          .write = write_megatron_lm,
          .start = start_megatron_lm,
          .notes = megatron_notes,
          .bucket = megatron_bucket};
}

}  // namespace meshwright
