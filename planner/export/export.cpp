#include "planner/export/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "costmodel/base/input_error.h"
#include "planner/export/launch.h"
#include "planner/export/target.h"

namespace meshwright {
namespace {

void check_model(Refusals& refusals, const TargetWriter& writer, const ExportSetting& setting) {
  if (setting.decoder) return writer.check_model(refusals, setting.decoder->spec, setting);
  refuse(refusals, "model", printable(setting.model.name),
         "expected the config.json of a decoder-only model, which is what is written for others");
}

Refusals refusals_of_key(const TargetWriter& writer, std::string_view key,
                         const PlanChoices& choices, const ExportSetting& setting) {
  Refusals refusals;
  check_key(refusals, key, writer.abilities, choices, setting);
  for (const Rule& rule : writer.rules) {
    if (rule.key == key && refusals.empty()) rule.check(refusals, choices, setting);
  }
  return refusals;
}

constexpr std::array<std::string_view, 7> kUnsearchedKeys = {
    "precision", "kernels", "gradients", "rerun_all", "overlap", "reshard", "prefetch"};

// What runs any place has its devices in one process.
LaunchShape launch_of(const TargetWriter& writer, const PlanChoices& choices,
                      const ExportSetting& setting) {
  if (writer.abilities.orders.empty()) return {.devices_per_node = device_count(choices)};
  return std::get<LaunchShape>(launch_shape(writer.abilities, choices, setting.cluster));
}

std::string readme_text(const TargetWriter& writer, const Export& what) {
  const Report& report = what.plan.report;
  const BatchChoice& batch = what.setting.batch;
  const double tokens = static_cast<double>(batch.global_batch * batch.sequence);
  const auto fullest = report.fullest();
  std::string text = fmt::format(
      "# {} on {} by {} {}\n\n"
      "Plan: `{}`, global batch {}, sequence {}, {}, on {} nodes with {} devices each.\n\n"
      "Start it in this folder:\n\n    {}\n\n"
      "Written for {} {}; other versions may read it differently. `plan.json` is the whole plan.\n"
      "Predicted with software {}: a step {}, {:.0f} tokens/s, {} on the fullest device.\n",
      printable(what.setting.model.name), printable(what.setting.cluster.name), what.target.name,
      what.target.version, what.plan.choices_text, batch.global_batch, batch.sequence,
      to_text(batch.precision), what.launch.nodes, what.launch.devices_per_node, writer.start(what),
      what.target.name, what.target.version, what.plan.software, to_text(report.step),
      tokens / report.step.value(), to_text(Report::needed(fullest)));
  for (const std::string& note : writer.notes(what)) text += "\n- " + note;
  return text + (text.ends_with('\n') ? "" : "\n");
}

}  // namespace

const std::vector<TargetWriter>& target_writers() {
  static const std::vector<TargetWriter> writers = {
      megatron_lm_writer(),     deepspeed_writer(),       torchtitan_writer(),
      torchtitan_toml_writer(), nanotron_writer(),        accelerate_writer(),
      colossal_ai_writer(),     megatron_bridge_writer(), executor_writer()};
  return writers;
}

const TargetWriter& writer_of(const ExportTarget& target) {
  return *std::ranges::find(target_writers(), target, &TargetWriter::target);
}

const std::vector<ExportTarget>& export_targets() {
  static const std::vector<ExportTarget> targets = [] {
    std::vector<ExportTarget> all;
    for (const TargetWriter& writer : target_writers()) all.push_back(writer.target);
    return all;
  }();
  return targets;
}

const ExportTarget* find_export_target(std::string_view name,
                                       const std::optional<std::string>& version) {
  for (const ExportTarget& target : export_targets()) {
    if (target.name == name && (!version || target.version == *version)) return &target;
  }
  return nullptr;
}

std::string to_text(const Refusal& refusal) {
  return fmt::format("{}={}: {}", refusal.field, refusal.value, refusal.reason);
}

std::vector<Refusal> refusals_of(const ExportTarget& target, const PlanChoices& choices,
                                 const ExportSetting& setting) {
  const TargetWriter& writer = writer_of(target);
  Refusals refusals;
  check_model(refusals, writer, setting);
  for (const std::string_view key : legality_keys()) {
    std::ranges::move(refusals_of_key(writer, key, choices, setting), std::back_inserter(refusals));
  }
  return refusals;
}

std::vector<std::string> model_problems(const ExportTarget& target, const ExportSetting& setting) {
  Refusals refusals = refusals_of_key(writer_of(target), "precision", {}, setting);
  if (!writer_of(target).any_model) check_model(refusals, writer_of(target), setting);
  std::vector<std::string> problems;
  for (const Refusal& refusal : refusals) problems.push_back(to_text(refusal));
  return problems;
}

bool is_refused(const ExportTarget& target, std::string_view key, const PlanChoices& choices,
                const ExportSetting& setting) {
  const TargetWriter& writer = writer_of(target);
  if (!refusals_of_key(writer, key, choices, setting).empty()) return true;
  return key == "bucket" && std::ranges::any_of(kUnsearchedKeys, [&](std::string_view other) {
           return !refusals_of_key(writer, other, choices, setting).empty();
         });
}

std::vector<RecomputeChoice> recomputes_of(const ExportTarget& target) {
  std::vector<RecomputeChoice> recomputes;
  for (const Recompute kind : writer_of(target).abilities.recomputes) {
    if (kind == Recompute::Selective || kind == Recompute::Products) recomputes.push_back({kind});
  }
  return recomputes;
}

std::optional<Bytes> own_bucket(const ExportTarget& target, const PlanChoices& choices,
                                const ExportSetting& setting) {
  const TargetWriter& writer = writer_of(target);
  return writer.bucket && repeated_weights(choices) > 1 ? writer.bucket(choices, setting)
                                                        : std::nullopt;
}

std::optional<std::vector<std::int64_t>> own_layers(const ExportTarget& target,
                                                    const PlanChoices& choices,
                                                    const ExportSetting& setting) {
  const TargetWriter& writer = writer_of(target);
  return writer.layers ? writer.layers(choices, setting) : std::nullopt;
}

std::string_view to_text(Launcher launcher) {
  switch (launcher) {
    case Launcher::Torchrun:
      return "torchrun";
    case Launcher::Slurm:
      return "slurm";
    case Launcher::Mpirun:
      return "mpirun";
  }
  return "";
}

std::optional<Launcher> parse_launcher(std::string_view text) {
  for (const Launcher launcher : {Launcher::Torchrun, Launcher::Slurm, Launcher::Mpirun}) {
    if (to_text(launcher) == text) return launcher;
  }
  return std::nullopt;
}

std::variant<std::vector<ExportedFile>, std::vector<Refusal>> export_plan(
    const ExportTarget& target, const PlanToExport& plan, const ExportSetting& setting,
    Launcher launcher) {
  Refusals refusals = refusals_of(target, plan.choices, setting);
  if (!refusals.empty()) return refusals;
  const TargetWriter& writer = writer_of(target);
  const Export what{target,
                    plan,
                    plan.choices,
                    setting,
                    setting.decoder->spec,
                    launch_of(writer, plan.choices, setting),
                    launcher};
  std::vector<ExportedFile> files = writer.write(what);
  files.push_back({"plan.json", plan.plan_text});
  files.push_back({"README.md", readme_text(writer, what)});
  return files;
}

}  // namespace meshwright
