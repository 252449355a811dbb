#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/cluster_option.h"
#include "cli/command.h"
#include "cli/export_check.h"
#include "cli/report_view.h"
#include "cli/setting_option.h"
#include "cli/simulation_view.h"
#include "cli/text_table.h"
#include "cli/token_budget.h"
#include "costmodel/base/input_error.h"
#include "costmodel/base/write_file.h"
#include "simulator/lowering/lower.h"
#include "simulator/plan/plan_file.h"
#include "simulator/report/knob_prices.h"
#include "simulator/report/predict.h"
#include "simulator/report/trace_file.h"

namespace meshwright {
namespace {

constexpr auto kSimulateFooter =
    "Every device runs its list of tasks (--program shows them); one device of each class of "
    "equal\n"
    "ones is played. Prices are measured (--profile), else fitted for the device, else formulas "
    "on\n"
    "its data sheet; the report says how much of each. Transfers that are under way at once share\n"
    "links fairly, and a collective slows the kernels beside it: by 1/(1-0.15) within a node and\n"
    "1/(1-0.02) across nodes, an assumption. The step is the period of repeated steps. Memory is\n"
    "that of the buffers, 512 MiB for the device's context and 64 MiB for each communicator\n"
    "(assumptions), and what a caching allocator would keep reserved. What is offloaded is copied\n"
    "to the host and back in lanes of their own, over links that devices may share.\n"
    "--software has it as that training software does it: its attention kernel, the host's launch\n"
    "times, what its kernels move, what it does where the plan does not say (bucket, prefetch,\n"
    "kernels, precision of gradients), what it holds besides and takes between steps: what\n"
    "`meshwright validate` scores (data/software.json). Without it one is chosen by the device "
    "and\n"
    "said; none is GPUs without a training software.\n"
    "What cannot be planned ends with exit code 2, a bad file with 20.\n\n"
    "Examples:\n"
    "  meshwright simulate --model gpt2 --cluster h100 --plan dp=2,tp=2,pp=2,zero=1 "
    "--global-batch 32 --seq 1024\n"
    "  the same with --explain: what another micro-batch, recomputation, offload, ZeRO stage,\n"
    "  sequence parallelism or schedule would cost and save";

struct SimulateOptions {
  SettingOptions asked;
  BudgetOptions budget;
  std::vector<std::string> plans;
  std::optional<std::string> trace, save_plan, dispatch, target;
  bool program = false, alone = false, explain = false, all_devices = false;
};

EngineOptions engine_with(const SimulateOptions& options, EngineOptions engine) {
  if (options.alone) engine = {};
  if (!options.dispatch) return engine;
  const auto time = parse_quantity<Seconds>(*options.dispatch);
  if (!time) {
    throw UsageError(fmt::format("--dispatch {}: expected {}", printable(*options.dispatch),
                                 expected_text<Seconds>()));
  }
  engine.dispatch = *time;
  return engine;
}

std::string programs_text(const std::vector<Program>& programs) {
  std::string text;
  for (const Program& program : programs) {
    text += fmt::format("device {}\n{}", program.device.index(), program_text(program));
  }
  return text;
}

// No run in 8 bits is among those that prices were fitted to.
bool is_validated(const Plan& plan) { return plan.precision != Precision::FP8; }
constexpr std::string_view kNotValidated =
    "Not validated: 8-bit runs are not among those that prices were fitted to; 82 published ones "
    "are predicted 13 % off on average (docs/accuracy.md).";

std::string origins_text(const Report& report, const Software& software, const Plan& plan) {
  std::vector<std::string> parts;
  for (const auto& [origin, share] : report.prices) {
    parts.push_back(fmt::format("{:.0f} % {}", 100 * share, to_text(origin)));
  }
  return fmt::format(
      "\nPrices of software {}, by the time of all tasks: {}\n{}", software.name,
      fmt::join(parts, ", "),
      is_validated(plan) ? "" : wrapped_text(std::string(kNotValidated), 97, 2) + "\n");
}

Prediction predict_for(const SimulateOptions& options, const Plan& plan, const Setting& setting) {
  if (!options.all_devices) return predict(plan, setting);
  Represented all = represent_all(setting.model, plan, setting.cluster);
  PlayedPlan played = play(all, plan, setting);
  return {std::move(all), std::move(played.timeline), std::move(played.report)};
}

// Ends where --target names one that cannot be told the plan.
void require_carried(const SimulateOptions& options, const AskedPlan& form, const Plan& plan,
                     const AskedSetting& asked, const Session& session) {
  if (!options.target) return;
  const ExportTarget& target = target_from_option("--target", *options.target);
  const AskedExport to_export(options.asked, asked,
                              {plan.global_batch, plan.sequence, plan.precision}, session);
  const auto said = form_of(form, asked);
  auto refusals = said ? refusals_of(target, said->choices, to_export.setting)
                       : unsaid_plan(options.asked.plan.plan);
  if (refusals.empty()) return;
  end_not_carried(target,
                  {said ? said->choices : PlanChoices{}, printable(options.asked.plan.plan), "",
                   asked.software.name, predict(plan, asked.setting).report},
                  std::move(refusals), to_export.setting, asked, session);
}

// What is written and printed of one plan alone.
void report_one(const SimulateOptions& options, const Question& question, const AskedPlan& asked,
                const Plan& plan, const Setting& setting, const Session& session) {
  if (options.save_plan) write_text_file(*options.save_plan, plan_text(plan, setting.model.dims));
  if (options.program) return print_text(programs_text(lower_all(setting.model, plan)));
  auto [represented, timeline, report] = predict_for(options, plan, setting);
  if (options.trace) write_text_file(*options.trace, trace_text(represented.programs, timeline));
  std::vector<KnobPrice> knobs;
  if (options.explain) {
    const auto& [choices, batch] = short_form_of(asked, options.asked.plan);
    knobs = knob_prices(choices, batch, setting);
  }
  const Simulated simulated{options.asked.plan.plan, plan, std::move(report), ""};
  if (!session.json) {
    return print_text(question_text(question, simulated) + report_text(*simulated.report) +
                      budget_text(question.budget, *simulated.report) +
                      origins_text(*simulated.report, question.software, plan) +
                      (options.explain ? knobs_text(*simulated.report, knobs) : ""));
  }
  nlohmann::ordered_json document = simulation_json(question, simulated);
  document["validated"] = is_validated(plan);
  if (options.explain) document["knobs"] = knobs_json(knobs);
  print_json(document);
}

Simulated simulated_plan(const SimulateOptions& options, const AskedPlan& asked,
                         const Setting& setting) {
  try {
    Plan plan = plan_for(asked, options.asked.plan, setting);
    require_precision(setting.cluster, plan.precision);
    Report report = predict_for(options, plan, setting).report;
    return {options.asked.plan.plan, std::move(plan), std::move(report), ""};
  } catch (const UsageError& error) {
    return {options.asked.plan.plan, std::nullopt, std::nullopt, error.what()};
  }
}

void report_all(SimulateOptions options, const Question& question, const AskedSetting& asked,
                const Session& session) {
  if (options.save_plan || options.trace || options.program || options.explain || options.target) {
    throw UsageError("--save-plan, --trace, --program, --explain and --target need one --plan");
  }
  std::vector<Simulated> plans;
  for (const std::string& plan : options.plans) {
    options.asked.plan.plan = plan;
    plans.push_back(simulated_plan(options, asked_plan(options.asked.plan, asked), asked.setting));
  }
  const auto is_made = [](const Simulated& one) { return one.report.has_value(); };
  if (std::ranges::none_of(plans, is_made)) throw UsageError(plans.front().problem);
  if (session.json) return print_json(plans_json(question, plans));
  print_text(plans_text(question, plans));
}

void simulate_plans(SimulateOptions options, const Session& session) {
  if (options.asked.software == "list") return print_text(software_list(session));
  require_given({{"--model", !options.asked.plan.model.empty()},
                 {"--cluster", !options.asked.cluster.empty()},
                 {"--plan", !options.plans.empty()}});
  if (options.target && !options.asked.software) {
    options.asked.software = target_from_option("--target", *options.target).software;
  }
  AskedSetting asked(options.asked, session);
  asked.setting.engine = engine_with(options, asked.setting.engine);
  const Question question{asked.cluster, asked.software, asked.chosen.reason,
                          budget_from_options(options.budget, asked.cluster)};
  if (options.plans.size() > 1) return report_all(options, question, asked, session);
  options.asked.plan.plan = options.plans.front();
  if (options.target) {
    options.asked.plan.plan = plan_for_target(target_from_option("--target", *options.target),
                                              options.asked, asked, session);
  }
  const AskedPlan form = asked_plan(options.asked.plan, asked);
  const Plan plan = plan_for(form, options.asked.plan, asked.setting);
  require_precision(asked.cluster, plan.precision);
  require_carried(options, form, plan, asked, session);
  report_one(options, question, form, plan, asked.setting, session);
}

}  // namespace

void add_simulate_command(Command& program, Session& session) {
  Command command = program.subcommand(
      "simulate", "Plays one step of a plan, or of several: time and memory", kSimulateFooter);
  const auto options = std::make_shared<SimulateOptions>();
  add_setting_options(command, options->asked);
  command.repeated("--plan", options->plans,
                   std::string(kPlanAbout) + "\n(may be repeated: one line for each plan)");
  command.text("--target", options->target,
               "What is to run the plan, one of `export --list`: its software; a plan that it\n"
               "cannot be told ends with exit code 12 and what can be told instead");
  add_budget_options(command, options->budget);
  command.flag("--program", options->program, "Print every device's tasks instead");
  command.text("--trace", options->trace, "Write the timeline for ui.perfetto.dev");
  command.text("--save-plan", options->save_plan, "Write the whole plan to a file");
  command.flag("--explain", options->explain,
               "Also simulate every other choice that trades memory against time");
  command.flag("--alone", options->alone,
               "Every task takes its price: share no links, slow no kernels, repeat no steps");
  command.text("--dispatch", options->dispatch,
               "What the host needs to launch one task, such as \"5 us\" (0 if not given)");
  command.flag("--all-devices", options->all_devices,
               "Play every device and not one of each class of equal ones: the same times");
  add_json_option(command, session);
  command.runs([options, &session] { simulate_plans(*options, session); });
}

}  // namespace meshwright
