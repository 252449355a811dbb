#pragma once

#include "planner/export/target.h"

// What Megatron-Core builds: Megatron-LM and Megatron-Bridge have the same models.
namespace meshwright {

void check_megatron_model(Refusals& refusals, const DecoderSpec& model,
                          const ExportSetting& setting);

// "[0,1,1]": which layers have experts. None: all of them do.
std::optional<std::string> megatron_sparse_layers(const DecoderSpec& model);

// The smallest number that ranks' shares of the vocabulary are a multiple of: it is not padded
// where tp divides it.
std::int64_t padded_vocabulary(const DecoderSpec& model, std::int64_t tp);

// "Et*5|t*7|t*7|t*5L": the layers of each chunk in the order of the chunks.
std::string megatron_layout(const std::vector<std::int64_t>& layers);
// Whether layers are as Megatron cuts them without being told.
bool has_even_layers(const PlanChoices& choices, const ExportSetting& setting);

// How keys and values get to all devices of cp: "p2p", "a2a" or "a2a+p2p".
std::string_view megatron_context(const PlanChoices& choices);

// Rules for both.
std::vector<Rule> megatron_rules();
Abilities megatron_abilities();
std::optional<Bytes> megatron_bucket(const PlanChoices& choices, const ExportSetting& setting);
std::vector<std::string> megatron_notes(const Export& what);

}  // namespace meshwright
