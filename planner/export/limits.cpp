#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "planner/export/target.h"

namespace meshwright {
namespace {

template <class T>
std::vector<std::string_view> words_of(const std::vector<T>& values) {
  std::vector<std::string_view> words;
  for (const T& value : values) words.push_back(to_text(value));
  return words;
}

std::string heads_text(HeadRule rule) {
  switch (rule) {
    case HeadRule::Uneven:
      return "any tp";
    case HeadRule::Divided:
      return "tp divides heads and key-value heads";
    case HeadRule::DividedOrDivides:
      return "tp divides the heads, and divides the key-value heads or is a multiple of them";
  }
  return "";
}

std::string pipeline_text(const TargetWriter& writer) {
  const Abilities& able = writer.abilities;
  if (!able.pipeline) return "no pp: it has no pipeline by configuration";
  return fmt::format("pp with schedule {}, {}", fmt::join(words_of(able.schedules), ", "),
                     writer.layers     ? "layers as it cuts them"
                     : able.any_layers ? "any layers of each chunk"
                                       : "layers that divide among the chunks");
}

std::string zero_text(const Abilities& able) {
  std::string text = fmt::format("zero {}", fmt::join(able.zero, ", "));
  if (able.pipeline && able.zero_with_pipeline != able.zero) {
    text += fmt::format(" ({} with pp above 1)", fmt::join(able.zero_with_pipeline, ", "));
  }
  if (!able.shard_with.empty()) {
    return text + fmt::format(", shard with {}", fmt::join(able.shard_with, ", "));
  }
  return text + ", no shard";
}

std::string offload_text(const Abilities& able) {
  if (able.offload_optimizer) return able.offload_activations ? "offload" : "offload=optimizer";
  return "no offload";
}

}  // namespace

std::vector<std::string> recompute_words(const Abilities& able) {
  std::vector<std::string> words;
  for (const Recompute kind : able.recomputes) {
    const bool segments = kind == Recompute::Uniform && able.segments;
    words.push_back(kind == Recompute::First  ? "first:LAYERS"
                    : kind == Recompute::Drop ? "drop:TENSORS"
                    : segments                ? "full, uniform:LAYERS"
                                              : to_text(RecomputeChoice{.kind = kind}));
  }
  return words;
}

std::vector<std::string> limits_of(const ExportTarget& target) {
  const Abilities& able = writer_of(target).abilities;
  std::vector<std::string> lines = {
      fmt::format("precision {}; kernels {}", fmt::join(words_of(able.precisions), ", "),
                  fmt::join(words_of(able.kernels), ", ")),
      able.tensor ? heads_text(able.heads) : fmt::format("no tp: {}", able.why_no_tensor),
      pipeline_text(writer_of(target)), zero_text(able),
      fmt::format("recompute {}; {}", fmt::join(recompute_words(able), ", "), offload_text(able))};
  if (!able.tensor_forms) lines.push_back("no tensor=2d, 2.5d, 3d");
  if (able.tensor && able.sequence != SequenceSplit::Chosen) {
    lines.push_back(able.sequence == SequenceSplit::Never ? "no sequence_parallel"
                                                          : "sequence_parallel with every tp");
  }
  if (!able.contexts.empty()) {
    lines.push_back(fmt::format("cp with context {}{}", fmt::join(words_of(able.contexts), ", "),
                                able.heads_in_ring ? ", ulysses=N" : ""));
  }
  if (able.contexts.empty()) lines.push_back(fmt::format("no cp: {}", able.why_no_contexts));
  lines.push_back(able.experts ? "ep: experts are shared out"
                               : fmt::format("no ep: {}", able.why_no_experts));
  return lines;
}

}  // namespace meshwright
