#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/cluster_option.h"
#include "cli/command.h"
#include "cli/explain_view.h"
#include "cli/setting_option.h"
#include "cli/simulation_view.h"

namespace meshwright {
namespace {

constexpr auto kExplainFooter =
    "What the step of a plan is spent on and what binds it: compute, network, waiting for others,\n"
    "the host, memory. Then, each simulated: what this plan would take with faster links and\n"
    "kernels and with more nodes, and what every other choice would cost or save. --against: why\n"
    "not that one, part by part, from one step to the other.\n\n"
    "Example: meshwright explain --model gpt2 --cluster h100 --plan dp=8 --against dp=4,tp=2 "
    "--global-batch 32 --seq 1024";

struct ExplainOptions {
  SettingOptions setting;
  std::string plan;
  std::optional<std::string> against;
};

void explain_plan(ExplainOptions options, const Session& session) {
  require_given({{"--model", !options.setting.plan.model.empty()},
                 {"--cluster", !options.setting.cluster.empty()},
                 {"--plan", !options.plan.empty()}});
  const AskedSetting asked(options.setting, session);
  options.setting.plan.plan = options.plan;
  const AskedPlan form = asked_plan(options.setting.plan, asked);
  const Plan plan = plan_for(form, options.setting.plan, asked.setting);
  require_precision(asked.cluster, plan.precision);
  Explanation explanation{.step = predicted_step(options.plan, plan, asked.setting)};
  explanation.what_ifs = what_if(plan, form, *explanation.step.report, asked);
  if (const auto* choices = std::get_if<ShortForm>(&form)) {
    explanation.knobs = knob_prices(choices->choices, choices->batch, asked.setting);
  }
  if (options.against) {
    if (!is_plan(*options.against)) throw UsageError("--against: expected a plan");
    explanation.against = compared_step(*options.against, options.setting, &asked);
  }
  if (session.json) return print_json(explanation_json(explanation));
  const Question question{asked.cluster, asked.software, asked.chosen.reason, std::nullopt};
  print_text(question_text(question, {options.plan, plan, {}, ""}) + explanation_text(explanation));
}

}  // namespace

void add_explain_command(Command& program, Session& session) {
  Command command = program.subcommand(
      "explain", "Why a plan takes what it takes, and what would help", kExplainFooter);
  const auto options = std::make_shared<ExplainOptions>();
  add_setting_options(command, options->setting);
  command.text("--plan", options->plan, kPlanAbout);
  command.text("--against", options->against, "Another plan: why not that one");
  add_json_option(command, session);
  command.runs([options, &session] { explain_plan(*options, session); });
}

}  // namespace meshwright
