#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/setting_option.h"
#include "simulator/report/report.h"
#include "simulator/report/trace_parts.h"

namespace meshwright {

// A step as far as two can be compared: predicted from a plan, or as a trace or a report has it.
struct ComparedStep {
  std::string name;  // as typed
  std::string kind;  // "plan", "trace", "report"
  Seconds step;
  std::vector<KindTime> times;  // of the device that stands for the step; they add up to it
  // Of the device whose memory is fullest, at its peak.
  std::vector<std::pair<std::string, Bytes>> memory;
  // That the device of `times` sends, by what for.
  std::vector<std::pair<std::string, double>> sent;
  std::optional<Report> report = {};  // of a plan
};

// What a name stands for: a short form or a plan file (`asked` must be there), a trace that
// `simulate` or `run` wrote, or what `simulate --json` printed. Throws UsageError, InputError.
ComparedStep compared_step(const std::string& name, const SettingOptions& options,
                           const AskedSetting* asked);

// Whether a name is that of a plan, which needs a model and a cluster.
bool is_plan(const std::string& name);

// A plan as it is predicted.
ComparedStep predicted_step(const std::string& name, const Plan& plan, const Setting& setting);
ComparedStep predicted_step(const std::string& name, const Prediction& prediction);

}  // namespace meshwright
