#include "planner/search/nearest_plan.h"

#include <limits>
#include <utility>

#include "planner/search/lean_search.h"
#include "planner/search/objective.h"

namespace meshwright {

void NearestPlan::note(const PlanChoices& choices, const Report& report) {
  Nearest one{choices, Report::needed(report.fullest()), capacity_of(question_, setting_.cluster)};
  if (report.host && report.host->is_too_much()) one.host = report.host;
  const auto key = [](const Nearest& plan) {
    return std::pair(plan.host.has_value(), plan.needed);
  };
  if (!nearest_ || key(one) < key(*nearest_)) nearest_ = std::move(one);
}

// What plans may need that are worth a simulation.
Bytes NearestPlan::room() const {
  const bool any = !nearest_ || nearest_->host;
  return any ? Bytes(std::numeric_limits<std::int64_t>::max()) : nearest_->needed - Bytes(1);
}

void NearestPlan::look_around(const SearchSpace& space, Bounds& bounds, SearchCounts& counts,
                              const std::stop_token& stop) {
  for (const HostsUsed hosts : {HostsUsed::None, HostsUsed::WithRoom, HostsUsed::Any}) {
    if (fits_ || (hosts == HostsUsed::Any && nearest_)) return;
    LeanSearch lean(space, question_.batch, setting_, bounds, hosts, {}, stop);
    while (const auto found = lean.next(room())) {
      const Report& report = found->plan.report;
      const Fit fit = fit_within(report, question_.max_memory);
      if (fit == Fit::Yes || (fit == Fit::Close && question_.allow_close)) {
        ++counts.simulated;
        return note_fitting();
      }
      ++(fit == Fit::Close ? counts.close : counts.too_large);
      note(found->choices, report);
    }
    left_some_ = left_some_ || lean.left_some();
  }
}

}  // namespace meshwright
