#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "costmodel/model/model.h"
#include "simulator/validation/published_run.h"

namespace meshwright {

// A config.json, as Hugging Face has them.
struct RunConfig {
  std::string text;
};

// The model of a run: of arch "gpt" a GPT-2 of its sizes, of arch "llama" a Llama, of arch "moe"
// the preset that is named for it in the folder of shipped data. `dropout` is the probability that
// a gpt is trained with. What the run does not say has a default that is added to `assumed`; the
// vocabulary is padded as Megatron does. A string says why there is none.
std::variant<RunConfig, std::string> config_of(const PublishedRun& run, double dropout,
                                               const std::filesystem::path& data,
                                               std::vector<std::string>& assumed);
std::variant<Model, std::string> model_of(const PublishedRun& run, double dropout,
                                          const std::filesystem::path& data,
                                          std::vector<std::string>& assumed);

}  // namespace meshwright
