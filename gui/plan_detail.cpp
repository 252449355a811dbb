#include "gui/plan_detail.h"

#include <utility>
#include <variant>

#include "cli/export_check.h"

namespace meshwright {
namespace {

std::shared_ptr<PlanDetail> played(std::shared_ptr<const AskedSearch> asked, std::string name,
                                   Plan plan) {
  auto detail = std::make_shared<PlanDetail>();
  detail->name = std::move(name);
  detail->plan = std::move(plan);
  detail->prediction = predict(detail->plan, asked->setting->setting);
  detail->asked = std::move(asked);
  const Prediction& prediction = detail->prediction;
  detail->lanes = lanes_of(prediction.represented, prediction.timeline);
  detail->step = predicted_step(detail->name, prediction);
  return detail;
}

}  // namespace

std::shared_ptr<const PlanDetail> detail_of(const std::shared_ptr<const AskedSearch>& asked,
                                            const PlanChoices& choices) {
  auto made = plan_of(choices, asked->question.batch, asked->setting->setting);
  const std::string name = to_text(choices, asked->question.defaults);
  if (const auto* reasons = std::get_if<Reasons>(&made)) {
    throw UsageError(name + ": " + reasons_text(*reasons));
  }
  auto detail = played(asked, name, std::get<Plan>(std::move(made)));
  detail->choices = choices;
  return detail;
}

std::shared_ptr<const PlanDetail> detail_of(const std::shared_ptr<const AskedSearch>& asked,
                                            const std::string& name) {
  PlanOptions options = asked->setting_options.plan;
  options.plan = name;
  const AskedPlan form = asked_plan(options, *asked->setting);
  const auto said = form_of(form, *asked->setting);
  auto detail = played(asked, said ? to_text(said->choices, asked->question.defaults) : name,
                       plan_for(form, options, asked->setting->setting));
  if (said) detail->choices = said->choices;
  if (std::holds_alternative<Plan>(form)) detail->file = name;
  return detail;
}

}  // namespace meshwright
