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
#include "costmodel/price/fitted_costs.h"
#include "costmodel/price/profile_costs.h"
#include "simulator/classes/represent.h"
#include "simulator/engine/simulate.h"
#include "simulator/lowering/lower.h"
#include "simulator/plan/plan_file.h"
#include "simulator/report/price_origins.h"
#include "simulator/report/report.h"
#include "simulator/report/software_run.h"
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
    "times, what its kernels move, its defaults of bucket, prefetch and kernels, its overheads\n"
    "(data/software.json; what was fitted and how well: meshwright validate).\n"
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

EngineOptions engine_options(const SimulateOptions& options, const Software& software) {
  EngineOptions engine = options.software ? engine_options_of(software) : kFullEngine;
  engine.repeat = true;
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
    text += fmt::format("device {}, program {:016x}\n{}", program.device.index(), hash_of(program),
                        program_text(program));
  }
  return text;
}

std::string origins_text(const std::map<PriceOrigin, double>& origins, const Software& software) {
  std::vector<std::string> parts;
  for (const auto& [origin, share] : origins) {
    parts.push_back(fmt::format("{:.0f} % {}", 100 * share, to_text(origin)));
  }
  std::string text = fmt::format("\nPrices of software {}, by the time of all tasks: {}\n",
                                 software.name, fmt::join(parts, ", "));
  if (software.step_s > 0) {
    text += fmt::format("Between steps it takes {} more, for input, logging and waiting\n",
                        to_text(Seconds(software.step_s)));
  }
  return text;
}

void simulate_plan(SimulateOptions options, const Session& session) {
  const Software software = software_from_option(options.software.value_or(kOwnSoftware), session);
  const EngineOptions engine = engine_options(options, software);
  const MemoryOverheads overheads = options.software ? overheads_of(software) : kGpuOverheads;
  if (options.software) options.plan.otherwise = choices_of(software);
  const OpGraph graph = model_from_option(options.plan.model, session);
  const Model model = make_model(graph);
  const Cluster cluster = cluster_from_option(options.cluster, session, options.profile);
  const FittedCosts fitted(cluster, read_fits(session.data / "fits.json"), software);
  const MeasuredTimes times(options.profile ? profile_from_option(*options.profile, session)
                                            : Profile{});
  const ProfileCosts costs(times, cluster, fitted);
  const Plan plan = plan_from_options(options.plan, graph, model, cluster, costs);
  if (options.save_plan) write_text_file(*options.save_plan, plan_text(plan));
  if (options.program) return print_text(programs_text(lower_all(model, plan)));
  const Represented represented =
      options.all_devices ? represent_all(model, plan, cluster) : represent(model, plan, cluster);
  const Timeline timeline = simulate(represented.scene, costs, engine);
  if (options.trace) write_text_file(*options.trace, trace_text(represented.programs, timeline));
  const Report report =
      summarize(represented.programs, timeline, cluster, overheads, represented.classes);
  std::vector<KnobPrice> knobs;
  if (options.explain) {
    const ShortForm form = short_form_of(options.plan, graph);
    knobs = knob_prices(form.choices, form.batch, {model, cluster, costs, engine, overheads});
  }
  const auto origins = price_origins(represented.programs, costs);
  if (!session.json) {
    return print_text(report_text(report) + origins_text(origins, software) +
                      (options.explain ? knobs_text(report, knobs) : ""));
  }
  nlohmann::ordered_json document = {{"plan", origin_json(plan)}, {"report", report_json(report)}};
  document["software"] = software.name;
  document["between_steps_s"] = software.step_s;
  for (const auto& [origin, share] : origins) document["prices"][to_text(origin)] = share;
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
