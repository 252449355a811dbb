#include "cli/model_option.h"

#include <fmt/format.h>

#include "costmodel/base/input_error.h"
#include "costmodel/base/presets.h"
#include "costmodel/model/model_name.h"

namespace meshwright {

void require_positive(std::string_view option, std::int64_t value) {
  if (value < 1) {
    throw UsageError(fmt::format("{} {}: expected a whole number of at least 1", option, value));
  }
}

OpGraph model_from_option(const std::string& text, const Session& session) {
  try {
    return read_model(text, session.data);
  } catch (const NameError& error) {
    throw UsageError(error.what());
  }
}

std::int64_t sequence_or_default(std::optional<std::int64_t> asked, const OpGraph& graph) {
  constexpr std::int64_t kUsual = 4096;
  if (asked) require_positive("--seq", *asked);
  const std::int64_t longest = graph.longest_sequence.value_or(asked.value_or(kUsual));
  if (asked && *asked > longest) {
    throw UsageError(fmt::format("--seq {}: {} has learned positions for a sequence of at most {}",
                                 *asked, printable(graph.name), longest));
  }
  return asked.value_or(std::min(kUsual, longest));
}

}  // namespace meshwright
