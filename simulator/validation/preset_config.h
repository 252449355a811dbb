#pragma once

#include <filesystem>
#include <string>
#include <variant>

#include "simulator/validation/run_model.h"

namespace meshwright {

// The config.json of a run whose model has more to it than a row can say: that of the preset which
// `data`/published/models.csv names for it, with the run's layers and this vocabulary. A string
// says why there is none: nobody named one, or the row's sizes are not the preset's.
std::variant<RunConfig, std::string> preset_config(const PublishedRun& run, std::int64_t vocabulary,
                                                   const std::filesystem::path& data);

}  // namespace meshwright
