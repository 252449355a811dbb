#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/cluster_option.h"
#include "cli/command.h"
#include "cli/model_option.h"
#include "cli/plan_option.h"
#include "cli/profile_option.h"
#include "cli/report_view.h"
#include "cli/software_option.h"
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
    "`meshwright validate` scores (data/software.json).\n"
    "What cannot be planned ends with exit code 2, a bad file with 20.\n\n"
    "Examples:\n"
    "  meshwright simulate --model gpt2 --cluster h100 --plan dp=2,tp=2,pp=2,zero=1 "
    "--global-batch 32 --seq 1024\n"
    "  the same with --explain: what another micro-batch, recomputation, offload, ZeRO stage,\n"
    "  sequence parallelism or schedule would cost and save";

struct SimulateOptions {
  PlanOptions plan;
  std::string cluster;
  std::optional<std::string> profile, software, trace, save_plan, dispatch;
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

nlohmann::ordered_json origin_json(const Plan& plan) {
  return {{"model", {{"name", plan.model.name}, {"hash", plan.model.hash}}},
          {"cluster", {{"name", plan.cluster.name}, {"hash", plan.cluster.hash}}},
          {"devices", device_count(plan)},
          {"global_batch", plan.global_batch},
          {"sequence", plan.sequence},
          {"micro_batch", plan.micro_batch},
          {"precision", to_text(plan.precision)}};
}

std::string programs_text(const std::vector<Program>& programs) {
  std::string text;
  for (const Program& program : programs) {
    text += fmt::format("device {}\n{}", program.device.index(), program_text(program));
  }
  return text;
}

std::string origins_text(const Report& report, const Software& software) {
  std::vector<std::string> parts;
  for (const auto& [origin, share] : report.prices) {
    parts.push_back(fmt::format("{:.0f} % {}", 100 * share, to_text(origin)));
  }
  return fmt::format("\nPrices of software {}, by the time of all tasks: {}\n", software.name,
                     fmt::join(parts, ", "));
}

Software software_for(const SimulateOptions& options, const Session& session) {
  if (options.software) return software_from_option(*options.software, session);
  return assumed_on_gpus(software_from_option(kOwnSoftware, session));
}

Prediction predict_for(const SimulateOptions& options, const Plan& plan, const Setting& setting) {
  if (!options.all_devices) return predict(plan, setting);
  Represented all = represent_all(setting.model, plan, setting.cluster);
  PlayedPlan played = play(all, plan, setting);
  return {std::move(all), std::move(played.timeline), std::move(played.report)};
}

nlohmann::ordered_json simulation_json(const Plan& plan, const Report& report,
                                       const Software& software) {
  nlohmann::ordered_json document = {{"plan", origin_json(plan)}, {"report", report_json(report)}};
  document["software"] = software.name;
  document["between_steps_s"] = report.last().parts.between_steps.value();
  for (const auto& [origin, share] : report.prices) document["prices"][to_text(origin)] = share;
  return document;
}

void simulate_plan(const SimulateOptions& options, const Session& session) {
  const Software software = software_for(options, session);
  const OpGraph graph = model_from_option(options.plan.model, session);
  const AskedPlan asked = asked_plan(options.plan, graph, software.plan);
  const Model model = make_model(graph);
  const Cluster cluster = cluster_from_option(options.cluster, session, options.profile);
  Setting setting =
      make_setting(model, cluster, software, read_fits(session.data / "fits.json"),
                   options.profile ? profile_from_option(*options.profile, session) : Profile{});
  setting.engine = engine_with(options, setting.engine);
  const Plan plan = plan_for(asked, options.plan, setting);
  if (options.save_plan) write_text_file(*options.save_plan, plan_text(plan, graph.dims));
  if (options.program) return print_text(programs_text(lower_all(model, plan)));
  const auto [represented, timeline, report] = predict_for(options, plan, setting);
  if (options.trace) write_text_file(*options.trace, trace_text(represented.programs, timeline));
  std::vector<KnobPrice> knobs;
  if (options.explain) {
    const auto& [choices, batch] = short_form_of(asked, options.plan);
    knobs = knob_prices(choices, batch, setting);
  }
  if (!session.json) {
    return print_text(report_text(report) + origins_text(report, software) +
                      (options.explain ? knobs_text(report, knobs) : ""));
  }
  nlohmann::ordered_json document = simulation_json(plan, report, software);
  if (options.explain) document["knobs"] = knobs_json(knobs);
  print_json(document);
}

}  // namespace

void add_simulate_command(Command& program, Session& session) {
  Command command =
      program.subcommand("simulate", "Plays one step of a plan: time and memory", kSimulateFooter);
  const auto options = std::make_shared<SimulateOptions>();
  add_plan_options(command, options->plan);
  command.text("--cluster", options->cluster, "A preset, a cluster file or h100:4x8").required();
  command.text("--profile", options->profile,
               "Measured times, used where they are known (`meshwright profile`)");
  command.text("--software", options->software,
               "The training software: megatron-lm, megatron-core, fsdp, deepspeed, ...");
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
  command.runs([options, &session] { simulate_plan(*options, session); });
}

}  // namespace meshwright
