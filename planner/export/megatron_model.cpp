#include "planner/export/megatron_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "planner/export/buckets.h"
#include "planner/export/llama_model.h"
#include "simulator/choices/model_layers.h"

namespace meshwright {
namespace {

void refuse_model(Refusals& refusals, std::string what, std::string reason) {
  refuse(refusals, "model", std::move(what), std::move(reason));
}

void check_rope(Refusals& refusals, const RopeAttributes& rope) {
  if (rope.theta != std::floor(rope.theta)) {
    refuse_model(refusals, fmt::format("rope theta {}", rope.theta), "--rotary-base is whole");
  }
  if (rope.scaling.empty()) return;
  if (rope.scaling == "linear" && rope.factor == std::floor(rope.factor)) return;
  // The rest of llama3's numbers are constants of rotary_pos_embedding.py.
  if (rope.scaling == "llama3" && rope.low_factor == 1 && rope.high_factor == 4 &&
      rope.original_positions == 8192) {
    return;
  }
  refuse_model(refusals, "rope scaling " + rope.scaling,
               "it has linear by a whole factor, and llama3's with its usual numbers");
}

void check_positions(Refusals& refusals, const DecoderSpec& model) {
  if (const auto* rope = std::get_if<RopeAttributes>(&model.positions)) {
    check_rope(refusals, *rope);
  } else if (const auto* learned = std::get_if<LearnedPositions>(&model.positions)) {
    if (learned->reserved > 0) {
      refuse_model(refusals, "positions that no token has", "its tables have none");
    }
  } else {
    refuse_model(refusals, "alibi positions", "it has learned and rotary ones");
  }
}

void check_function(Refusals& refusals, const DecoderSpec& model) {
  const bool gelu = model.function == Function::Gelu || model.function == Function::GeluTanh;
  if (model.gated ? model.function == Function::Silu : gelu) {
    // The tanh form comes with the kernel that adds the bias.
    if (model.function != Function::GeluTanh || model.ffn_bias) return;
  }
  refuse_model(
      refusals,
      fmt::format("{}{} feed-forward", model.gated ? "gated " : "", to_text(model.function)),
      "it has gated silu, gelu, and tanh gelu with biases");
}

// Softmax of the chosen ones is what the chosen ones of a softmax are scaled to.
void check_megatron_experts(Refusals& refusals, const DecoderSpec& model) {
  const RouterAttributes& router = model.experts->router;
  if (router.sigmoid || router.groups > 1 || router.factor != 1) {
    refuse_model(refusals, "experts chosen by sigmoids or in groups",
                 "it has them; they come with latent attention, which this export does not write");
  }
  if (model.experts->shared_gate) {
    refuse_model(refusals, "a gate of shared experts", "it has shared experts without one");
  }
}

void check_expert_sequence(Refusals& refusals, const PlanChoices& choices,
                           const ExportSetting& setting) {
  const bool experts = setting.decoder && setting.decoder->spec.experts;
  if (!experts || choices.tp == 1 || choices.sequence_parallel) return;
  refuse(refusals, "sequence_parallel", "false", "models with experts need it where tp is above 1");
}

void check_megatron_biases(Refusals& refusals, const DecoderSpec& model) {
  const bool all = model.qkv_bias && model.output_bias && model.ffn_bias;
  if (all || (!model.output_bias && !model.ffn_bias)) return;
  refuse_model(refusals, "biases of some products",
               "it has biases on all, on none, or on queries, keys and values alone");
}

void check_megatron_bucket(Refusals& refusals, const PlanChoices& choices,
                           const ExportSetting& setting) {
  if (repeated_weights(choices) == 1) return;
  if (choices.zero == 3 && choices.pp == 1)
    return check_bucket_is_layer(refusals, choices, setting);
  const Bytes bucket = bucket_of(choices), all = all_weights(setting);
  if (choices.overlap || bucket >= all) return;
  refuse(refusals, "bucket", to_text(bucket),
         fmt::format("without overlap all gradients are one bucket: expected at least {} B",
                     all.value()));
}

void check_megatron_offload(Refusals& refusals, const PlanChoices& choices, const ExportSetting&) {
  if (!choices.offload_optimizer || (choices.zero == 1 && repeated_weights(choices) > 1)) return;
  refuse(refusals, "zero", std::to_string(choices.zero),
         "offload=optimizer comes with the distributed optimizer: zero=1 and dp above 1");
}

// Every device has two pieces of the sequence, however keys get to it, and a ring of Transformer
// Engine knows no windows (context_parallel.py).
void check_megatron_context(Refusals& refusals, const PlanChoices& choices,
                            const ExportSetting& setting) {
  if (choices.cp == 1) return;
  const std::string value(to_text(choices.context));
  if (setting.batch.sequence % (2 * choices.cp) != 0) {
    refuse(refusals, "context", value,
           fmt::format("2 x cp = {} must divide the sequence of {}", 2 * choices.cp,
                       setting.batch.sequence));
  }
  const bool window = setting.decoder && setting.decoder->spec.window;
  if (window && context_degrees(choices).ring > 1) {
    refuse(refusals, "context", value, "its ring does not know a window");
  }
}

// Megatron-FSDP reduces as it goes.
void check_fsdp_overlap(Refusals& refusals, const PlanChoices& choices, const ExportSetting&) {
  if (repeated_weights(choices) == 1 || choices.zero < 2 || choices.overlap) return;
  refuse(refusals, "overlap", "false", "ZeRO 2 and 3 reduce gradients during the backward");
}

}  // namespace

std::string_view megatron_context(const PlanChoices& choices) {
  const ContextDegrees context = context_degrees(choices);
  if (context.heads == 1) return "p2p";
  return context.ring == 1 ? "a2a" : "a2a+p2p";
}

void check_megatron_model(Refusals& refusals, const DecoderSpec& model,
                          const ExportSetting& setting) {
  if (!model.has_head) refuse_model(refusals, "no head", "it trains language models");
  if (model.experts) check_megatron_experts(refusals, model);
  if (model.latent)
    refuse_model(refusals, "latent attention",
                 "it has it (--multi-latent-attention), which this export does not write");
  if (model.parallel_residual) {
    refuse_model(refusals, "attention beside feed-forward", "its layers have them in a row");
  }
  if (model.norms != NormPlace::First || !model.final_norm) {
    refuse_model(refusals, "norms after layers", "its layers have norms first, and one at the end");
  }
  if (model.embedding_norm || model.embedding_scale || model.embedding_width != model.hidden) {
    refuse_model(refusals, "a changed embedding", "its layers read the embedding as it is");
  }
  if (has_scales(model)) {
    refuse_model(refusals, "scales of sums, scores or logits", "its layers add what they find");
  }
  if (model.qk_norm == QkNorm::AllHeads) {
    refuse_model(refusals, "norms of all queries together", "it has one for each head");
  }
  if (model.norm_attributes.gain_plus_one) {
    refuse_model(refusals, "gains that are offsets from 1",
                 "it has them (--apply-layernorm-1p), which this export does not write");
  }
  if (model.embedding_dropout != model.residual_dropout) {
    refuse_model(refusals, "different dropouts", "embedding and layers have one --hidden-dropout");
  }
  if (model.window && *model.window < setting.batch.sequence) {
    refuse_model(refusals, fmt::format("a window of {}", *model.window),
                 "it has windows (--window-size), which this export does not write");
  }
  check_positions(refusals, model);
  check_function(refusals, model);
  check_megatron_biases(refusals, model);
}

std::optional<std::string> megatron_sparse_layers(const DecoderSpec& model) {
  if (std::ranges::count(model.sparse, false) == 0) return {};
  std::vector<int> pattern;
  for (const bool sparse : model.sparse) pattern.push_back(sparse ? 1 : 0);
  return fmt::format("[{}]", fmt::join(pattern, ","));
}

std::int64_t padded_vocabulary(const DecoderSpec& model, std::int64_t tp) {
  return (model.vocabulary + tp - 1) / tp * tp;
}

std::string megatron_layout(const std::vector<std::int64_t>& layers) {
  std::vector<std::string> stages;
  for (std::size_t c = 0; c < layers.size(); ++c) {
    std::string stage = c == 0 ? "E" : "";
    if (layers[c] > 0) stage += layers[c] == 1 ? "t" : fmt::format("t*{}", layers[c]);
    stages.push_back(stage + (c + 1 == layers.size() ? "L" : ""));
  }
  return fmt::format("{}", fmt::join(stages, "|"));
}

bool has_even_layers(const PlanChoices& choices, const ExportSetting& setting) {
  const auto layers = layers_of_chunks(choices, find_layers(setting.model).count());
  return std::ranges::all_of(layers, [&](std::int64_t count) { return count == layers.front(); });
}

std::vector<Rule> megatron_rules() {
  return {{"context", check_megatron_context}, {"schedule", check_interleaved_rounds},
          {"zero", check_megatron_offload},    {"sequence_parallel", check_expert_sequence},
          {"overlap", check_fsdp_overlap},     {"bucket", check_megatron_bucket}};
}

Abilities megatron_abilities() {
  return {
      .precisions = {Precision::BF16, Precision::FP16, Precision::FP32, Precision::FP8},
      .narrow_gradients = {Precision::BF16, Precision::FP16, Precision::FP8},
      .kernels = {KernelSet::Eager, KernelSet::Unfused},
      .orders = {RankOrder::TensorDataPipeline, RankOrder::TensorPipelineData},
      .heads = HeadRule::DividedOrDivides,
      .experts = true,
      .why_no_capacity = "it counts a capacity for each device and not for each sequence",
      .contexts = {Context::Ring, Context::Ulysses},
      .heads_in_ring = true,
      .schedules = {Schedule::OneForwardOneBackward, Schedule::Interleaved},
      .any_layers = true,
      .zero = {0, 1, 2, 3},
      .zero_with_pipeline = {0, 1},
      .shard_with = {1},
      .recomputes = {Recompute::None, Recompute::Selective, Recompute::Uniform, Recompute::First},
      .segments = true,
      .offload_optimizer = true,
      .overlaps = {true, false}};
}

std::optional<Bytes> megatron_bucket(const PlanChoices& choices, const ExportSetting& setting) {
  if (choices.zero == 3) return layer_weights(choices, setting);
  if (!choices.overlap) return all_weights(setting);
  return std::nullopt;
}

std::vector<std::string> megatron_notes(const Export& what) {
  std::vector<std::string> notes;
  const PlanChoices& choices = what.choices;
  const std::int64_t padded = padded_vocabulary(what.model, choices.tp);
  if (padded != what.model.vocabulary) {
    notes.push_back(fmt::format("The vocabulary is padded from {} to {}, so that tp divides it.",
                                what.model.vocabulary, padded));
  }
  if (repeated_weights(choices) > 1 && choices.overlap && choices.zero < 2 &&
      choices.pp * choices.virtual_stages > 1) {
    notes.push_back("Only the first stage's first chunk has buckets; others reduce all at once.");
  }
  if (what.model.experts && choices.zero == 3 && repeated_weights(choices) > 1) {
    notes.push_back(kExpertsByThemselves);
  }
  if (choices.offload_optimizer) {
    notes.push_back(
        "It updates offloaded state on the host's cores; the prediction copies it to the device.");
  }
  return notes;
}

}  // namespace meshwright
