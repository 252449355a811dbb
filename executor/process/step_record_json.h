#pragma once

#include <nlohmann/json_fwd.hpp>

#include "executor/worker.h"

namespace meshwright {

// A record as it goes from one process to another: all of it, or only when the device began and
// finished.
nlohmann::json record_json(const StepRecord& record, bool whole);
StepRecord record_from(const nlohmann::json& json, DeviceId device);

}  // namespace meshwright
