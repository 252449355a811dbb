#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/export/buckets.h"
#include "planner/export/launch.h"
#include "planner/export/llama_model.h"
#include "planner/export/quoting.h"

namespace meshwright {
namespace {

// Layers of each stage as build_model (models/base.py) cuts them: by the products of a layer and of
// the head, a stage ends with the first block that comes above its share. None: a stage would have
// none, or the head be apart.
std::optional<std::vector<std::int64_t>> nanotron_layers(const DecoderSpec& model,
                                                         std::int64_t stages) {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double attention = 4.0 * number(model.heads) * number(model.hidden / model.heads);
  const double layer = (attention + 3.0 * number(model.ffn)) * number(model.hidden);
  const double head = number(model.vocabulary) * number(model.hidden);
  const double total = layer * number(model.layers) + head;
  std::vector<std::int64_t> layers(static_cast<std::size_t>(stages), 0);
  std::size_t stage = 0;
  for (std::int64_t i = 1; i <= model.layers; ++i) {
    if (stage >= layers.size()) return std::nullopt;
    ++layers[stage];
    if (layer * number(i) >
        total * (number(static_cast<std::int64_t>(stage) + 1) / number(stages))) {
      ++stage;
    }
  }
  if (stage + 1 != layers.size() || layers.back() == 0) return std::nullopt;
  return layers;
}

void check_nanotron_layers(Refusals& refusals, const PlanChoices& choices,
                           const ExportSetting& setting) {
  if (choices.pp == 1 || !setting.decoder) return;
  const auto layers = layers_of_chunks(choices, setting.decoder->spec.layers);
  const auto own = nanotron_layers(setting.decoder->spec, choices.pp);
  if (own && layers == *own) return;
  refuse(refusals, "layers", fmt::format("{}", fmt::join(layers, "+")),
         own ? fmt::format("it cuts stages by itself: {}", fmt::join(*own, "+"))
             : fmt::format("it leaves a stage of pp={} without layers", choices.pp));
}

std::optional<std::vector<std::int64_t>> own_nanotron_layers(const PlanChoices& choices,
                                                             const ExportSetting& setting) {
  if (choices.pp == 1 || !setting.decoder) return std::nullopt;
  return nanotron_layers(setting.decoder->spec, choices.pp);
}

// ZeRO 1 with fp32 sums reduces everything after the backward; else DDP does, in buckets.
void check_nanotron_overlap(Refusals& refusals, const PlanChoices& choices, const ExportSetting&) {
  if (choices.dp == 1 || choices.overlap == (choices.zero == 0)) return;
  refuse(refusals, "overlap", choices.overlap ? "true" : "false",
         choices.zero == 0 ? "without ZeRO gradients are reduced during the backward"
                           : "with ZeRO 1 gradients are reduced after the backward");
}

void check_nanotron_bucket(Refusals& refusals, const PlanChoices& choices,
                           const ExportSetting& setting) {
  if (choices.dp == 1) return;
  const Bytes bucket = bucket_of(choices);
  if (choices.zero > 0) {
    if (bucket >= all_weights(setting)) return;
    refuse(refusals, "bucket", to_text(bucket),
           fmt::format("with ZeRO 1 all gradients are one bucket: expected at least {} B",
                       all_weights(setting).value()));
  } else if (bucket.value() % (1_MiB).value() != 0) {
    refuse(refusals, "bucket", to_text(bucket), "ddp_bucket_cap_mb is a whole number of MiB");
  }
}

std::optional<Bytes> nanotron_bucket(const PlanChoices& choices, const ExportSetting& setting) {
  return choices.zero > 0 ? all_weights(setting) : 25_MiB;
}

void check_nanotron_model(Refusals& refusals, const DecoderSpec& model,
                          const ExportSetting& setting) {
  check_llama_model(refusals, model, setting);
  const auto* rope = std::get_if<RopeAttributes>(&model.positions);
  if (!rope || (rope->theta == 10000 && rope->scaling.empty())) return;
  refuse(refusals, "model", fmt::format("rope theta {}", rope->theta),
         "this version turns heads with theta 10000, unscaled");
}

std::string model_yaml(const Export& what) {
  const DecoderSpec& model = what.model;
  return fmt::format(
      "model:\n"
      "  ddp_bucket_cap_mb: {}\n"
      "  dtype: {}\n"
      "  init_method:\n"
      "    std: 0.02\n"
      "  make_vocab_size_divisible_by: 1\n"
      "  model_config:\n"
      "    hidden_act: silu\n"
      "    hidden_size: {}\n"
      "    initializer_range: 0.02\n"
      "    intermediate_size: {}\n"
      "    is_llama_config: true\n"
      "    max_position_embeddings: {}\n"
      "    num_attention_heads: {}\n"
      "    num_hidden_layers: {}\n"
      "    num_key_value_heads: {}\n"
      "    rms_norm_eps: {}\n"
      "    tie_word_embeddings: {}\n"
      "    vocab_size: {}\n",
      what.choices.zero == 0 ? bucket_of(what.choices).value() / (1_MiB).value() : 25,
      what.setting.batch.precision == Precision::FP32 ? "float32" : "bfloat16", model.hidden,
      model.ffn, what.setting.batch.sequence, model.heads, model.layers, model.kv_heads,
      number_text(model.norm_attributes.epsilon), lower_text(model.tied), model.vocabulary);
}

std::string optimizer_yaml(const Export& what) {
  return fmt::format(
      "optimizer:\n"
      "  accumulate_grad_in_fp32: true\n"
      "  adam_beta1: 0.9\n"
      "  adam_beta2: 0.95\n"
      "  adam_eps: 1.0e-08\n"
      "  clip_grad: 1.0\n"
      "  learning_rate_scheduler:\n"
      "    learning_rate: 0.0001\n"
      "    lr_decay_style: cosine\n"
      "    lr_warmup_steps: 2\n"
      "    lr_warmup_style: linear\n"
      "    min_decay_lr: 1.0e-05\n"
      "  torch_adam_is_fused: true\n"
      "  weight_decay: 0.01\n"
      "  zero_stage: {}\n",
      what.choices.dp > 1 ? what.choices.zero : 0);
}

std::string nanotron_yaml(const Export& what) {
  const PlanChoices& choices = what.choices;
  return fmt::format(
             "# Without data it trains on random tokens.\n"
             "data:\n"
             "  dataset: null\n"
             "  num_loading_workers: 1\n"
             "  seed: 42\n"
             "general:\n"
             "  project: meshwright\n"
             "  run: {}\n"
             "  seed: 42\n",
             quoted_text(what.setting.model.name)) +
         model_yaml(what) + optimizer_yaml(what) +
         fmt::format(
             "parallelism:\n"
             "  dp: {}\n"
             "  expert_parallel_size: 1\n"
             "  pp: {}\n"
             "  pp_engine: {}\n"
             "  tp: {}\n"
             "  tp_linear_async_communication: false\n"
             "  tp_mode: {}\n"
             "tokenizer:\n"
             "  tokenizer_name_or_path: null\n"
             "tokens:\n"
             "  batch_accumulation_per_replica: {}\n"
             "  micro_batch_size: {}\n"
             "  sequence_length: {}\n"
             "  train_steps: 50\n",
             choices.dp, choices.pp, choices.schedule == Schedule::GPipe ? "afab" : "1f1b",
             choices.tp,
             choices.sequence_parallel && choices.tp > 1 ? "REDUCE_SCATTER" : "ALL_REDUCE",
             microbatches_of(choices, what.setting.batch), choices.microbatch,
             what.setting.batch.sequence);
}

std::vector<ExportedFile> write_nanotron(const Export& what) {
  const NodeScript script{
      .about = about_text(what),
      .needs = {{"NANOTRON", "the folder of the sources of nanotron, which has run_train.py"}},
      .environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}},
      .starter = torchrun_words(what.launch),
      .program = "\"$NANOTRON\"/run_train.py",
      .options = {{"config", "The configuration", {"--config-file", "config.yaml"}}}};
  std::vector<ExportedFile> files = launch_files(what, script);
  files.push_back({"config.yaml", nanotron_yaml(what)});
  return files;
}

std::string start_nanotron(const Export& what) {
  return "NANOTRON=/path/to/nanotron " + launch_command(what);
}

std::vector<std::string> nanotron_notes(const Export&) {
  return {"There is no software of its own for its predictions: they are Megatron-Core's."};
}

}  // namespace

TargetWriter nanotron_writer() {
  return {.target = {"nanotron", "0.4", "megatron-core", "its YAML file"},
          .abilities = {.precisions = {Precision::BF16, Precision::FP32},
                        .kernels = {KernelSet::Eager},
                        .why_no_experts = "none of this version's models has experts",
                        .schedules = {Schedule::OneForwardOneBackward, Schedule::GPipe},
                        .any_layers = true,
                        .zero = {0, 1},
                        .zero_with_pipeline = {0, 1},
                        .overlaps = {true, false}},
          .rules = {{"tp", check_vocabulary_divides},
                    {"layers", check_nanotron_layers},
                    {"overlap", check_nanotron_overlap},
                    {"bucket", check_nanotron_bucket}},
          .check_model = check_nanotron_model,
          .write = write_nanotron,
          .start = start_nanotron,
          .notes = nanotron_notes,
          .bucket = nanotron_bucket,
          .layers = own_nanotron_layers};
}

}  // namespace meshwright
