#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "simulator/choices/plan_choices.h"
#include "simulator/choices/resolve.h"
#include "simulator/report/predict.h"
#include "simulator/report/report.h"

namespace meshwright {

// One choice of a plan made otherwise, and what comes of it.
struct KnobPrice {
  std::string name;              // as in a short form: "microbatch=2"
  std::optional<Report> report;  // none: it cannot be planned
  std::string problem;           // then why
};

// The report of the plan that choices stand for, or why there is none.
KnobPrice price_of(const std::string& name, const PlanChoices& choices, const BatchChoice& batch,
                   const Setting& setting);

// Every choice of its own that trades memory against time, by simulating it: micro-batch, what is
// recomputed, ZeRO stage, sequence parallelism, schedule. What changes nothing is left out. Stops
// early, with fewer, when asked to.
std::vector<KnobPrice> knob_prices(const PlanChoices& choices, const BatchChoice& batch,
                                   const Setting& setting, const std::stop_token& stop = {});

}  // namespace meshwright
