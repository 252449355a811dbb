#include "cli/export_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>

#include "costmodel/base/input_error.h"
#include "simulator/choices/plan_form.h"

namespace meshwright {
namespace {

// Of the nearest plans the fastest one that fits, or the fastest.
std::optional<CarriedInstead> simulated_nearest(const ExportTarget& target,
                                                const PlanChoices& choices,
                                                const ExportSetting& setting,
                                                const AskedSetting& asked) {
  std::optional<CarriedInstead> best;
  const auto rank = [](const Report& one) {
    return std::pair(one.fits == Fit::No, one.step.value());
  };
  for (const PlanChoices& near : nearest_carried(target, choices, setting)) {
    const auto planned = plan_of(near, setting.batch, asked.setting);
    const auto* plan = std::get_if<Plan>(&planned);
    if (!plan) continue;
    Report report = predict(*plan, asked.setting).report;
    if (best && rank(best->report) <= rank(report)) continue;
    best = CarriedInstead{to_text(near, choices_of(asked.software.plan, setting.batch.precision)),
                          std::move(report)};
  }
  return best;
}

}  // namespace

std::optional<ShortForm> form_of(const AskedPlan& asked, const AskedSetting& setting) {
  if (const auto* form = std::get_if<ShortForm>(&asked)) return *form;
  const Plan& plan = std::get<Plan>(asked);
  const auto choices = choices_of(plan, setting.model, setting.cluster, *setting.setting.costs);
  if (!choices) return std::nullopt;
  ShortForm form{*choices, {plan.global_batch, plan.sequence, plan.precision}};
  // Where nothing is run again the plan does not say how.
  if (plan.recompute.empty()) form.choices.rerun_all = setting.software.plan.reruns_all;
  return form;
}

std::vector<Refusal> unsaid_plan(const std::string& file) {
  return {{"plan", printable(file),
           "its placement, order or recomputation is none that a short form says, and targets are "
           "told by these alone"}};
}

void end_not_carried(const ExportTarget& target, const PlanToExport& plan,
                     std::vector<Refusal> refusals, const ExportSetting& setting,
                     const AskedSetting& asked, const Session& session) {
  const bool is_said = refusals.front().field != "plan";
  const NotCarried what{
      target, plan.choices_text, plan.report, std::move(refusals),
      is_said ? simulated_nearest(target, plan.choices, setting, asked) : std::nullopt};
  if (session.json) {
    print_json(not_carried_json(what));
  } else {
    print_text(not_carried_text(what));
  }
  std::set<std::string> fields;
  for (const Refusal& refusal : what.refusals) fields.insert(refusal.field);
  throw EndedWith(ExitCode::NotExportable, fmt::format("{} {} cannot carry {}", target.name,
                                                       target.version, fmt::join(fields, ", "))
                                               .c_str());
}

}  // namespace meshwright
