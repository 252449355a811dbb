#pragma once

#include "planner/export/target.h"

namespace meshwright {

// For targets that build llama's layers and no others: norms of root mean squares first, rotary
// positions, gated silu, no biases.
void check_llama_model(Refusals& refusals, const DecoderSpec& model, const ExportSetting& setting);

// Of these, what llama's relatives have too, whatever experts, norms of queries and size of heads.
void check_llama_layers(Refusals& refusals, const DecoderSpec& model, const ExportSetting& setting,
                        std::string_view reason);

// Rotary positions of such a model.
const RopeAttributes& rope_of(const DecoderSpec& model);

// For targets that do not pad the vocabulary.
void check_vocabulary_divides(Refusals& refusals, const PlanChoices& choices,
                              const ExportSetting& setting);
// For those that cannot tie weights of different stages.
void check_tied_in_stage(Refusals& refusals, const PlanChoices& choices,
                         const ExportSetting& setting);
// Micro-batches go round the stages: they are a multiple of these.
void check_interleaved_rounds(Refusals& refusals, const PlanChoices& choices,
                              const ExportSetting& setting);

// Micro-batches that a replica computes in a step.
std::int64_t microbatches_of(const PlanChoices& choices, const BatchChoice& batch);

}  // namespace meshwright
