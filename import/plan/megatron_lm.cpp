#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "import/plan/megatron_layout.h"
#include "import/plan/target_readers.h"

namespace meshwright {
namespace {

Precision megatron_precision(ForeignSettings& settings) {
  const bool bf16 = settings.flag("--bf16"), fp16 = settings.flag("--fp16");
  if (bf16 && fp16) settings.refuse("--fp16", "--bf16 is there too");
  settings.refuse("--fp4-format", "plans have no 4-bit products");
  if (settings.word("--fp8-format")) return Precision::FP8;
  return bf16 ? Precision::BF16 : fp16 ? Precision::FP16 : Precision::FP32;
}

void read_model_sizes(ForeignSettings& settings, ModelSizes& model) {
  model.layers = settings.count("--num-layers");
  model.hidden = settings.count("--hidden-size");
  model.heads = settings.count("--num-attention-heads");
  model.ffn = settings.count("--ffn-hidden-size");
  const bool grouped = settings.flag("--group-query-attention");
  const auto groups = settings.count("--num-query-groups");
  model.kv_heads = grouped && groups ? groups : model.heads;
  // Left out it is 4 x hidden, with swiglu two thirds of that.
  if (!model.ffn && model.hidden && !settings.has("--swiglu")) model.ffn = *model.hidden * 4;
}

void read_stages(ForeignSettings& settings, PlanFrame& frame) {
  PlanChoices& choices = frame.plan.choices;
  MegatronStages stages{.pp = choices.pp, .layers = frame.layers()};
  stages.layout = settings.word("--pipeline-model-parallel-layout");
  stages.first = settings.count("--decoder-first-pipeline-num-layers", 0);
  stages.last = settings.count("--decoder-last-pipeline-num-layers", 0);
  stages.with_embedding = settings.flag("--account-for-embedding-in-pipeline-split");
  stages.with_loss = settings.flag("--account-for-loss-in-pipeline-split");
  stages.chunks = settings.count("--num-virtual-stages-per-pipeline-rank");
  stages.layers_per_chunk = settings.count("--num-layers-per-virtual-pipeline-stage");
  const auto result = stages_of(stages);
  if (const auto* reason = std::get_if<std::string>(&result)) return settings.refuse_all(*reason);
  const auto& [chunks, layers] = std::get<StageChoice>(result);
  choices.virtual_stages = chunks;
  if (chunks > 1) choices.schedule = Schedule::Interleaved;
  choices.layers = layers;
  if (const auto group = settings.count("--microbatch-group-size-per-virtual-pipeline-stage");
      group && chunks > 1 && *group != choices.pp) {
    settings.refuse("--microbatch-group-size-per-virtual-pipeline-stage",
                    "plans have groups of pp micro-batches");
  }
}

int fsdp_stage(ForeignSettings& settings) {
  const std::string strategy =
      settings.word("--data-parallel-sharding-strategy").value_or("optim_grads_params");
  const std::vector<std::string> stages = {"no_shard", "optim", "optim_grads",
                                           "optim_grads_params"};
  const auto found = std::ranges::find(stages, strategy);
  if (found == stages.end()) {
    settings.refuse("--data-parallel-sharding-strategy",
                    "expected no_shard, optim, optim_grads or optim_grads_params");
    return 0;
  }
  return static_cast<int>(found - stages.begin());
}

void read_state(ForeignSettings& settings, PlanChoices& choices) {
  choices.zero = settings.flag("--use-distributed-optimizer") ? 1 : 0;
  if (settings.flag("--use-megatron-fsdp")) choices.zero = fsdp_stage(settings);
  if (settings.flag("--use-torch-fsdp2")) {
    choices.zero = settings.flag("--torch-fsdp2-no-reshard-after-forward") ? 2 : 3;
  }
  const auto instances = settings.count("--num-distributed-optimizer-instances");
  if (instances && *instances > 1) {
    if (choices.dp % *instances == 0) {
      choices.shard = choices.dp / *instances;
    } else {
      settings.refuse("--num-distributed-optimizer-instances",
                      fmt::format("does not divide the {} replicas", choices.dp));
    }
  }
  settings.refuse_unless("--outer-dp-sharding-strategy", {"no_shard"},
                         "plans share state out among one group of replicas");
  if (settings.flag("--optimizer-cpu-offload")) {
    const double fraction = settings.number("--optimizer-offload-fraction").value_or(1.0);
    choices.offload_optimizer = fraction > 0;
    if (fraction > 0 && fraction < 1) {
      settings.refuse("--optimizer-offload-fraction", "plans offload all of it or nothing");
    }
  }
  settings.refuse_unless("--cpu-offloading-num-layers", {"0"},
                         "plans offload activations of all layers or of none");
  settings.refuse("--fine-grained-activation-offloading",
                  "plans offload activations of all modules or of none");
}

void read_gradients(ForeignSettings& settings, PlanFrame& frame) {
  PlanChoices& choices = frame.plan.choices;
  const bool overlap = settings.flag("--overlap-grad-reduce");
  const auto bucket = settings.count("--ddp-bucket-size", 1, std::int64_t{1} << 40);
  if (repeated_weights(choices) > 1 && choices.zero < 3) {
    choices.overlap = overlap;
    if (!overlap) {
      choices.bucket = kOneBucket;
      choices.bucket_per_replica = {};
    } else if (bucket) {
      choices.bucket = bytes_of_elements(*bucket, frame.plan.precision);
      choices.bucket_per_replica = {};
    }
  }
  if (settings.flag("--accumulate-allreduce-grads-in-fp32")) choices.gradient_precision.reset();
  if (settings.flag("--grad-reduce-in-bf16")) choices.gradient_precision = Precision::BF16;
}

void read_recompute(ForeignSettings& settings, PlanChoices& choices) {
  const bool shorthand = settings.flag("--recompute-activations");
  const auto granularity = settings.word("--recompute-granularity");
  const auto method = settings.word("--recompute-method");
  const auto layers = settings.count("--recompute-num-layers");
  const auto modules = settings.words("--recompute-modules");
  if (shorthand || granularity == "selective") {
    choices.recompute = {Recompute::Selective};
    if (!modules.empty() && modules != std::vector<std::string>{"core_attn"}) {
      settings.refuse("--recompute-modules", "plans recompute core_attn alone, or whole layers");
    }
  } else if (granularity == "full") {
    if (method != "uniform" && method != "block") {
      return settings.refuse("--recompute-granularity",
                             "needs --recompute-method uniform or block");
    }
    choices.recompute = {method == "block" ? Recompute::First : Recompute::Uniform,
                         layers.value_or(1)};
  } else if (granularity) {
    settings.refuse("--recompute-granularity", "expected full or selective");
  }
}

void read_experts(ForeignSettings& settings, PlanFrame& frame) {
  ModelSizes& model = frame.plan.model;
  model.experts = settings.count("--num-experts").value_or(0);
  const auto ep = settings.count("--expert-model-parallel-size").value_or(1);
  const auto etp = settings.count("--expert-tensor-parallel-size");
  if (*model.experts > 0) frame.set_experts(ep, etp.value_or(frame.plan.choices.tp));
}

constexpr std::array kPartOfSoftware = {"--overlap-param-gather",
                                        "--overlap-param-gather-with-optimizer-step",
                                        "--tp-comm-overlap",
                                        "--no-overlap-p2p-communication",
                                        "--overlap-p2p-communication-warmup-flush",
                                        "--overlap-moe-expert-parallel-comm",
                                        "--delay-wgrad-compute",
                                        "--moe-shared-expert-overlap",
                                        "--cross-entropy-loss-fusion",
                                        "--transformer-impl",
                                        "--use-flash-attn",
                                        "--fp8-recipe",
                                        "--fp8-param-gather",
                                        "--use-precision-aware-optimizer",
                                        "--main-grads-dtype",
                                        "--main-params-dtype",
                                        "--exp-avg-dtype",
                                        "--exp-avg-sq-dtype",
                                        "--ddp-num-buckets",
                                        "--ddp-pad-buckets-for-high-nccl-busbw",
                                        "--ddp-average-in-collective",
                                        "--distribute-saved-activations",
                                        "--no-gradient-accumulation-fusion",
                                        "--use-mcore-models",
                                        "--moe-token-dispatcher-type",
                                        "--moe-grouped-gemm"};

}  // namespace

void read_megatron_lm(ForeignSettings& settings, PlanFrame& frame) {
  frame.start("megatron-lm", "megatron-core", megatron_precision(settings));
  ImportedPlan& plan = frame.plan;
  PlanChoices& choices = plan.choices;
  read_model_sizes(settings, plan.model);
  choices.tp = settings.count("--tensor-model-parallel-size").value_or(1);
  choices.pp = settings.count("--pipeline-model-parallel-size").value_or(1);
  choices.cp = settings.count("--context-parallel-size").value_or(1);
  frame.set_context(settings, "--cp-comm-type", "--hierarchical-context-parallel-sizes");
  settings.refuse_unless("--tensor-parallel-num-weight-shards", {std::to_string(choices.tp)},
                         "plans shard weights among the tp devices");
  choices.sequence_parallel = settings.flag("--sequence-parallel") && choices.tp > 1;
  frame.set_replicas(settings);
  read_stages(settings, frame);
  read_experts(settings, frame);
  read_state(settings, choices);
  read_gradients(settings, frame);
  read_recompute(settings, choices);
  if (settings.flag("--use-tp-pp-dp-mapping")) frame.place_pipeline_inside(settings);
  if (settings.word("--attention-backend") == "unfused") choices.kernels = KernelSet::Unfused;
  frame.set_batch(settings, "--micro-batch-size", "--global-batch-size");
  plan.sequence = settings.count("--seq-length");
  for (const char* key : kPartOfSoftware) settings.set_aside(key);
}

}  // namespace meshwright
