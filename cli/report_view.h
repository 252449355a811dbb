#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "simulator/report/knob_prices.h"
#include "simulator/report/report.h"

namespace meshwright {

// How many devices a report is about, and what each of them does.
std::int64_t report_devices(const Report& report);
double tokens_per_device(const Report& report);
double flops_per_device(const Report& report);  // of the model, as MFU counts them

struct NamedBytes {
  std::string name;
  Bytes bytes;
  char letter;
};
// What a device needs at its peak; with what the allocator keeps it adds up to what is needed.
std::vector<NamedBytes> memory_parts(const DeviceReport& device);

// As a person reads it: whether it fits, figures, the time budget of the device that finishes last,
// the memory of the fullest and of each stage, and what limits the step.
std::string report_text(const Report& report);

// Two reports of one plan side by side: what was predicted, and what was measured of the last step.
std::string comparison_text(const Report& predicted, const Report& measured);

// The object `report` of `simulate --json`.
nlohmann::ordered_json report_json(const Report& report);

// What each choice would cost instead, beside what the report has.
std::string knobs_text(const Report& report, const std::vector<KnobPrice>& knobs);
nlohmann::ordered_json knobs_json(const std::vector<KnobPrice>& knobs);

}  // namespace meshwright
