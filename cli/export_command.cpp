#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/cluster_option.h"
#include "cli/command.h"
#include "cli/export_check.h"
#include "cli/export_folder.h"
#include "cli/export_option.h"
#include "cli/export_view.h"
#include "cli/setting_option.h"
#include "costmodel/base/input_error.h"
#include "simulator/plan/plan_file.h"

namespace meshwright {
namespace {

constexpr auto kExportFooter =
    "Writes a folder that starts training by the plan: the target's own configuration for this\n"
    "model, a script that starts it on every node, the plan and a README. What a target cannot be\n"
    "told exactly is not written: exit code 12, with every such choice, the nearest plan that it\n"
    "can be told and what that costs. `meshwright plan --target T` searches only what T can be\n"
    "told. Without --out the files are printed. docs/exports.md says what each choice becomes.\n\n"
    "Examples:\n"
    "  meshwright export --list\n"
    "  meshwright export --model llama3-8b --cluster h100:2x8 --plan "
    "dp=4,tp=2,pp=2,zero=1,sequence_parallel=true --global-batch 64 --seq 8192 --to megatron-lm "
    "--out llama3-8b-run";

struct ExportOptions {
  SettingOptions asked;
  std::string to;
  std::optional<std::string> version, out;
  std::string launcher = "torchrun";
  bool force = false, list = false;
};

void require_writable(const ExportOptions& options) {
  if (!options.out) return;
  const std::filesystem::path folder = *options.out;
  if (folder.empty()) throw UsageError("--out: expected a folder's name, found nothing");
  if (is_new(folder) || (options.force && std::filesystem::is_directory(folder))) return;
  throw UsageError(fmt::format("--out {}: {}", printable(*options.out),
                               std::filesystem::is_directory(folder)
                                   ? "is there already; --force writes into it"
                                   : "is a file, expected a folder"));
}

void export_one(const ExportOptions& options, const ExportTarget& target, const AskedSetting& asked,
                const Session& session) {
  const AskedPlan plan_asked = asked_plan(options.asked.plan, asked);
  const Plan plan = plan_for(plan_asked, options.asked.plan, asked.setting);
  require_precision(asked.cluster, plan.precision);
  const auto form = form_of(plan_asked, asked);
  const BatchChoice batch{plan.global_batch, plan.sequence, plan.precision};
  const PlanChoices choices = form ? form->choices : PlanChoices{};
  const AskedExport to_export(options.asked, asked, batch, session);
  const PlanToExport what{choices,
                          form ? to_text(choices, choices_of(asked.software.plan, batch.precision))
                               : printable(options.asked.plan.plan),
                          plan_text(plan, asked.graph.dims), asked.software.name,
                          predict(plan, asked.setting).report};
  auto made = form ? export_plan(target, what, to_export.setting, *parse_launcher(options.launcher))
                   : unsaid_plan(options.asked.plan.plan);
  if (auto* refusals = std::get_if<std::vector<Refusal>>(&made)) {
    end_not_carried(target, what, std::move(*refusals), to_export.setting, asked, session);
  }
  const auto& files = std::get<std::vector<ExportedFile>>(made);
  if (options.out) write_folder(files, *options.out);
  if (session.json) return print_json(written_json(target, what.choices_text, what.report, files));
  print_text(options.out ? written_text(files, *options.out) : files_text(files));
}

void export_plans(ExportOptions options, const Session& session) {
  if (options.list) {
    return session.json ? print_json(targets_json()) : print_text(targets_text());
  }
  if (options.asked.software == "list") return print_text(software_list(session));
  require_given({{"--model", !options.asked.plan.model.empty()},
                 {"--cluster", !options.asked.cluster.empty()},
                 {"--plan", !options.asked.plan.plan.empty()},
                 {"--to", !options.to.empty()}});
  const ExportTarget& target = target_from_option("--to", options.to, options.version);
  require_writable(options);
  if (!options.asked.software) options.asked.software = target.software;
  const AskedSetting asked(options.asked, session);
  options.asked.plan.plan = plan_for_target(target, options.asked, asked, session);
  export_one(options, target, asked, session);
}

}  // namespace

void add_export_command(Command& program, Session& session) {
  Command command = program.subcommand(
      "export", "Writes a plan for a training framework, exactly or not at all", kExportFooter);
  const auto options = std::make_shared<ExportOptions>();
  add_setting_options(command, options->asked);
  command.text("--plan", options->asked.plan.plan, kPlanAbout);
  command.text("--to", options->to, "The framework, one of --list");
  command.text("--target-version", options->version,
               "Its version (if not given, the first that --list shows)");
  command
      .text("--launcher", options->launcher,
            "What starts the processes: torchrun, by hand on every node; slurm; mpirun")
      .with_default()
      .one_of({"torchrun", "slurm", "mpirun"});
  command.text("--out", options->out, "The folder to write (if not given, files are printed)");
  command.flag("--force", options->force, "Write into a folder that is there already");
  command.flag("--list", options->list, "Targets, versions and what each cannot carry");
  add_json_option(command, session);
  command.runs([options, &session] { export_plans(*options, session); });
}

}  // namespace meshwright
