#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/cluster_option.h"
#include "cli/command.h"
#include "cli/model_option.h"
#include "cli/plan_option.h"
#include "cli/profile_option.h"
#include "cli/report_view.h"
#include "cli/simulation_view.h"
#include "cli/software_option.h"
#include "cli/text_table.h"
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
  PlanOptions plan;
  std::vector<std::string> plans;
  std::string cluster;
  std::optional<std::string> profile, software, trace, save_plan, dispatch, tokens, price;
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

// No run in 8 bits is among those that predictions were checked with.
bool is_validated(const Plan& plan) { return plan.precision != Precision::FP8; }
constexpr std::string_view kNotValidated =
    "Not validated: 8-bit products are priced by kernel tables alone, and no run in fp8 was used "
    "to "
    "check predictions; three that were tried took 10 to 32 % less time than predicted.";

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

// "15T": people count tokens in millions, billions and trillions.
double tokens_from(const std::string& text) {
  static const std::map<char, double> kWords = {
      {'k', 1e3}, {'m', 1e6}, {'b', 1e9}, {'g', 1e9}, {'t', 1e12}};
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number);
  const auto word =
      after + 1 == end
          ? kWords.find(static_cast<char>(std::tolower(static_cast<unsigned char>(*after))))
          : kWords.end();
  if (word != kWords.end()) number *= word->second;
  if (error == std::errc() && (after == end || word != kWords.end()) && std::isfinite(number) &&
      number >= 1) {
    return number;
  }
  throw UsageError(fmt::format("--tokens {}: expected a number such as 300B or 15T (1e9, 1e12)",
                               printable(text)));
}

std::optional<TokenBudget> budget_for(const SimulateOptions& options, const Cluster& cluster) {
  if (!options.tokens) {
    if (options.price) throw UsageError("--price-per-hour: needs --tokens");
    return std::nullopt;
  }
  TokenBudget budget{.tokens = tokens_from(*options.tokens)};
  const auto& listed = cluster.node_types.front().device.price;
  if (listed && cluster.node_types.size() == 1) budget.price = listed->value;
  if (!options.price) return budget;
  // A bare number is in dollars, the only unit there is.
  budget.price = parse_quantity<DollarsPerHour>(*options.price);
  if (!budget.price) budget.price = parse_quantity<DollarsPerHour>(*options.price + " $/h");
  if (budget.price && *budget.price >= DollarsPerHour(0) && std::isfinite(budget.price->value())) {
    return budget;
  }
  throw UsageError(fmt::format("--price-per-hour {}: expected dollars for each device such as 2.5",
                               printable(*options.price)));
}

Prediction predict_for(const SimulateOptions& options, const Plan& plan, const Setting& setting) {
  if (!options.all_devices) return predict(plan, setting);
  Represented all = represent_all(setting.model, plan, setting.cluster);
  PlayedPlan played = play(all, plan, setting);
  return {std::move(all), std::move(played.timeline), std::move(played.report)};
}

// A --profile without a time of any device of the cluster changes nothing, which nobody means.
void note_unknown_devices(const Profile& profile, const Cluster& cluster, const std::string& name,
                          const Session& session) {
  const auto is_known = [&](const NodeType& node) {
    const auto same = [&](const auto& row) { return row.device == node.device.name; };
    return std::ranges::any_of(profile.kernels, same) ||
           std::ranges::any_of(profile.transfers, same);
  };
  if (session.quiet || std::ranges::any_of(cluster.node_types, is_known)) return;
  fmt::print(stderr, "meshwright: note: {} has no times of {}, so nothing is priced by it\n",
             printable(name), printable(cluster.node_types.front().device.name));
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
    const auto& [choices, batch] = short_form_of(asked, options.plan);
    knobs = knob_prices(choices, batch, setting);
  }
  const Simulated simulated{options.plan.plan, plan, std::move(report), ""};
  if (!session.json) {
    return print_text(question_text(question, simulated) + report_text(*simulated.report) +
                      budget_text(question, *simulated.report) +
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
    Plan plan = plan_for(asked, options.plan, setting);
    require_precision(setting.cluster, plan.precision);
    Report report = predict_for(options, plan, setting).report;
    return {options.plan.plan, std::move(plan), std::move(report), ""};
  } catch (const UsageError& error) {
    return {options.plan.plan, std::nullopt, std::nullopt, error.what()};
  }
}

void report_all(SimulateOptions options, const Question& question, const OpGraph& graph,
                const Setting& setting, const Session& session) {
  if (options.save_plan || options.trace || options.program || options.explain) {
    throw UsageError("--save-plan, --trace, --program and --explain need one --plan");
  }
  std::vector<Simulated> plans;
  for (const std::string& plan : options.plans) {
    options.plan.plan = plan;
    const AskedPlan asked =
        asked_plan(options.plan, graph, question.software.plan, usual_precision(question.cluster));
    plans.push_back(simulated_plan(options, asked, setting));
  }
  const auto is_made = [](const Simulated& one) { return one.report.has_value(); };
  if (std::ranges::none_of(plans, is_made)) throw UsageError(plans.front().problem);
  if (session.json) return print_json(plans_json(question, plans));
  print_text(plans_text(question, plans));
}

void simulate_plans(SimulateOptions options, const Session& session) {
  if (options.software == "list") return print_text(software_list(session));
  require_given({{"--model", !options.plan.model.empty()},
                 {"--cluster", !options.cluster.empty()},
                 {"--plan", !options.plans.empty()}});
  const Cluster cluster = cluster_from_option(options.cluster, session, options.profile);
  const ChosenSoftware chosen =
      options.software ? ChosenSoftware{*options.software, ""} : usual_software(cluster);
  const Software software = software_from_option(chosen.name, session);
  const OpGraph graph = model_from_option(options.plan.model, session);
  const Model model = make_model(graph);
  const Profile profile =
      options.profile ? profile_from_option(*options.profile, session) : Profile{};
  if (options.profile) note_unknown_devices(profile, cluster, *options.profile, session);
  Setting setting =
      make_setting(model, cluster, software, read_fits(session.data / "fits.json"), profile);
  setting.engine = engine_with(options, setting.engine);
  const Question question{cluster, software, chosen.reason, budget_for(options, cluster)};
  if (options.plans.size() > 1) return report_all(options, question, graph, setting, session);
  options.plan.plan = options.plans.front();
  const AskedPlan asked = asked_plan(options.plan, graph, software.plan, usual_precision(cluster));
  const Plan plan = plan_for(asked, options.plan, setting);
  require_precision(setting.cluster, plan.precision);
  report_one(options, question, asked, plan, setting, session);
}

}  // namespace

void add_simulate_command(Command& program, Session& session) {
  Command command = program.subcommand(
      "simulate", "Plays one step of a plan, or of several: time and memory", kSimulateFooter);
  const auto options = std::make_shared<SimulateOptions>();
  add_plan_options(command, options->plan);
  command.repeated("--plan", options->plans,
                   std::string(kPlanAbout) + "\n(may be repeated: one line for each plan)");
  command.text("--cluster", options->cluster, "A preset, a cluster file or h100:4x8");
  command.text("--profile", options->profile,
               "Measured times, used where they are known (`meshwright profile`)");
  command.text("--software", options->software,
               "The training software, or `list` (if not given, what such devices are used with)");
  command.text("--tokens", options->tokens, "Days and, with a price, money for so many: 300B, 15T");
  command.text("--price-per-hour", options->price,
               "Dollars for each device (if not given, the cluster's)");
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
