#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/cluster_option.h"
#include "cli/command.h"
#include "cli/model_option.h"
#include "cli/plan_option.h"
#include "cli/report_view.h"
#include "costmodel/json_input.h"
#include "simulator/check_program.h"
#include "simulator/engine/simulate.h"
#include "simulator/lowering/lower.h"
#include "simulator/plan_file.h"
#include "simulator/report.h"
#include "simulator/trace_file.h"

namespace meshwright {
namespace {

constexpr auto kFooter =
    "Prices come from formulas on the cluster's data sheet values. What cannot be planned ends "
    "with\n"
    "exit code 2, a bad file with 20.\n\n"
    "Example: meshwright simulate --model gpt2 --cluster h100 --plan dp=2,tp=2,pp=2,zero=1 "
    "--global-batch 32 --seq 1024";

struct SimulateOptions {
  PlanOptions plan;
  std::string cluster;
  std::optional<std::string> trace, save_plan;
  bool program = false;
};

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

void run(const SimulateOptions& options, const Session& session) {
  const OpGraph graph = model_from_option(options.plan.model, session);
  const Model model = make_model(graph);
  const Cluster cluster = cluster_from_option(options.cluster, session);
  const FormulaCosts costs(cluster);
  const Plan plan = plan_from_options(options.plan, graph, model, cluster, costs);
  const std::vector<Program> programs = lower_all(model, plan);
  if (const auto problems = check_programs(programs); !problems.empty()) {
    throw std::logic_error(fmt::format("{}", fmt::join(problems, "; ")));
  }
  if (options.save_plan) write_text_file(*options.save_plan, plan_text(plan));
  if (options.program) return print_text(programs_text(programs));
  const Timeline timeline = simulate(programs, costs);
  if (options.trace) write_text_file(*options.trace, trace_text(programs, timeline));
  const Report report = summarize(programs, timeline, cluster);
  if (!session.json) return print_text(report_text(report));
  print_json({{"plan", origin_json(plan)}, {"report", report_json(report)}});
}

}  // namespace

void add_simulate_command(CLI::App& app, Session& session) {
  auto* command = app.add_subcommand("simulate", "Plays one step of a plan: time and memory");
  command->footer(kFooter);
  const auto options = std::make_shared<SimulateOptions>();
  add_plan_options(*command, options->plan);
  command->add_option("--cluster", options->cluster, "A preset, a cluster file or h100:4x8")
      ->required();
  command->add_flag("--program", options->program, "Print every device's tasks instead");
  command->add_option("--trace", options->trace, "Write the timeline for ui.perfetto.dev");
  command->add_option("--save-plan", options->save_plan, "Write the whole plan to a file");
  add_json_option(*command, session);
  command->callback([options, &session] { run(*options, session); });
}

}  // namespace meshwright
