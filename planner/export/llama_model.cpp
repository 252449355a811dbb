#include "planner/export/llama_model.h"

#include <fmt/format.h>

namespace meshwright {

void check_llama_layers(Refusals& refusals, const DecoderSpec& model, const ExportSetting& setting,
                        std::string_view reason) {
  const auto refuse_if = [&](bool differs, std::string what) {
    if (differs) refuse(refusals, "model", std::move(what), std::string(reason));
  };
  refuse_if(!model.has_head, "no head");
  refuse_if(model.latent.has_value(), "latent attention");
  refuse_if(model.parallel_residual || model.norms != NormPlace::First || !model.final_norm,
            "another order of norms and sums");
  refuse_if(model.norm != OpKind::RmsNorm || model.norm_attributes.gain_plus_one, "other norms");
  refuse_if(!std::holds_alternative<RopeAttributes>(model.positions),
            "other positions than rotary");
  refuse_if(!model.gated || model.function != Function::Silu, "another feed-forward");
  refuse_if(model.qkv_bias || model.output_bias || model.ffn_bias, "biases");
  refuse_if(model.embedding_norm || model.embedding_scale || model.embedding_width != model.hidden,
            "a changed embedding");
  refuse_if(has_scales(model), "scales of sums, scores or logits");
  refuse_if(model.qk_norm == QkNorm::AllHeads, "norms of all queries together");
  refuse_if(model.attention_dropout + model.residual_dropout + model.embedding_dropout > 0,
            "dropout");
  refuse_if(model.window && *model.window < setting.batch.sequence, "a window");
  if (const auto* rope = std::get_if<RopeAttributes>(&model.positions)) {
    refuse_if(rope->rotated != model.head_size, "heads that turn in part");
    refuse_if(!rope->scaling.empty() && rope->scaling != "llama3", "rope scaling " + rope->scaling);
  }
}

void check_llama_model(Refusals& refusals, const DecoderSpec& model, const ExportSetting& setting) {
  constexpr std::string_view kReason = "it builds llama's layers alone";
  const auto refuse_if = [&](bool differs, std::string what) {
    if (differs) refuse(refusals, "model", std::move(what), std::string(kReason));
  };
  check_llama_layers(refusals, model, setting, kReason);
  refuse_if(model.experts.has_value(), "experts");
  refuse_if(model.qk_norm != QkNorm::None, "norms of queries and keys");
  refuse_if(model.heads * model.head_size != model.hidden,
            fmt::format("heads of {} entries", model.head_size));
}

const RopeAttributes& rope_of(const DecoderSpec& model) {
  return std::get<RopeAttributes>(model.positions);
}

void check_vocabulary_divides(Refusals& refusals, const PlanChoices& choices,
                              const ExportSetting& setting) {
  if (!setting.decoder || setting.decoder->spec.vocabulary % choices.tp == 0) return;
  refuse(refusals, "tp", std::to_string(choices.tp),
         fmt::format("it must divide the vocabulary of {}", setting.decoder->spec.vocabulary));
}

void check_tied_in_stage(Refusals& refusals, const PlanChoices& choices,
                         const ExportSetting& setting) {
  if (!setting.decoder || !setting.decoder->spec.tied || choices.pp == 1) return;
  refuse(refusals, "pp", std::to_string(choices.pp),
         "the embedding is tied to the head, which is on another stage");
}

void check_interleaved_rounds(Refusals& refusals, const PlanChoices& choices,
                              const ExportSetting& setting) {
  if (choices.schedule != Schedule::Interleaved || choices.pp == 1) return;
  const std::int64_t microbatches = microbatches_of(choices, setting.batch);
  if (microbatches % choices.pp == 0) return;
  refuse(refusals, "schedule", "interleaved",
         fmt::format("{} micro-batches are not a multiple of pp={}", microbatches, choices.pp));
}

std::int64_t microbatches_of(const PlanChoices& choices, const BatchChoice& batch) {
  return batch.global_batch / (choices.dp * choices.microbatch);
}

}  // namespace meshwright
