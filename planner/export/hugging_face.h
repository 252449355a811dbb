#pragma once

#include <string>

#include "planner/export/target.h"

// What targets share that train models of the library transformers by a script.
namespace meshwright {

// Any decoder that the library has: its config.json goes along.
void check_hugging_face_model(Refusals& refusals, const DecoderSpec& model,
                              const ExportSetting& setting);
ExportedFile hugging_face_config(const Export& what);

// The class of the model's layers, which software wraps: "LlamaDecoderLayer". None: not known.
std::optional<std::string> layer_class(std::string_view family);

// Whether software may cut the sequences of a family's models: their attention is the library's own
// self_attn, without a mask of the model's, and positions are rotary.
void check_cut_family(Refusals& refusals, const PlanChoices& choices, const ExportSetting& setting);

// "torch.bfloat16"
std::string_view torch_type(Precision precision);

// The lines of a script that build the model, with layers run again where the plan says so.
std::string build_model_lines(const Export& what, std::string_view indent);
// First lines: what it is, imports.
std::string script_head(const Export& what, std::string_view imports);

}  // namespace meshwright
