#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace meshwright {

// How Megatron's options cut a model into stages.
struct MegatronStages {
  std::int64_t pp = 1;
  std::optional<std::int64_t> layers;  // of the model
  std::optional<std::string> layout;   // "Et*3|t*4|t*4L"
  std::optional<std::int64_t> first, last;
  bool with_embedding = false, with_loss = false;
  std::optional<std::int64_t> chunks, layers_per_chunk;
};

struct StageChoice {
  std::int64_t chunks = 1;           // of each stage
  std::vector<std::int64_t> layers;  // of each chunk; empty: equally many
};

// Or why plans cannot say it.
std::variant<StageChoice, std::string> stages_of(const MegatronStages& stages);

// The layers of each chunk of a layout: one character for each layer (E embedding, t layer, m layer
// of multi-token prediction, L loss), | between chunks, x*n and (..)*n for repetition. None: it is
// no layout, or has layers that plans do not know.
std::optional<std::vector<std::int64_t>> parse_layout(const std::string& text);

}  // namespace meshwright
