#pragma once

#include <string>
#include <string_view>

#include "planner/export/target.h"

// The models that torchtitan 0.3 builds of sizes of ours: llama's layers, and qwen3's with experts
// or without.
namespace meshwright {

void check_titan_model(Refusals& refusals, const DecoderSpec& model, const ExportSetting& setting);

// The words of ModelSpec that are of a family.
struct TitanFamily {
  std::string_view name, parallelize, adapter;
};
TitanFamily titan_family(const DecoderSpec& model);

// Lines of a module: its imports, and the function model().
std::string titan_imports(const Export& what);
std::string titan_model_text(const Export& what);

}  // namespace meshwright
