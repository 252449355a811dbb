#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/session.h"
#include "costmodel/model/op_graph.h"

namespace meshwright {

// The model an option names. Throws UsageError for what names none, InputError for a bad file.
OpGraph model_from_option(const std::string& text, const Session& session);

// What --seq gives, or the usual length; UsageError if the model has no positions for it.
std::int64_t sequence_or_default(std::optional<std::int64_t> asked, const OpGraph& graph);

// UsageError if it is less than one.
void require_positive(std::string_view option, std::int64_t value);

}  // namespace meshwright
