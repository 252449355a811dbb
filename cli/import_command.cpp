#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/cluster_option.h"
#include "cli/command.h"
#include "cli/import_view.h"
#include "cli/new_file.h"
#include "cli/setting_option.h"
#include "costmodel/base/input_error.h"
#include "costmodel/base/json_input.h"
#include "costmodel/base/presets.h"
#include "costmodel/base/write_file.h"
#include "import/plan/model_sizes.h"
#include "simulator/plan/plan_file.h"

namespace meshwright {
namespace {

constexpr auto kImportFooter =
    "Of which framework a FILE is, is found out by its content: a script or a line of options of\n"
    "Megatron-LM, JSON of DeepSpeed, TOML or Python of torchtitan, YAML of nanotron or "
    "Accelerate,\n"
    "Python of Megatron-Bridge or Colossal-AI. Files are read, never run: of scripts literal "
    "words,\n"
    "variables and lists of them, of Python literals and keyword arguments. What plans cannot say\n"
    "is refused with its line (exit code 20); --leave-out=KEY takes it as not there. What is left\n"
    "out of a file is what the framework does then, not what a plan of ours would.\n\n"
    "Examples: a run of Megatron-LM, written and read back\n"
    "  meshwright export --model llama3-8b --cluster h100:2x8 --plan dp=8,tp=2,zero=1 "
    "--global-batch 64 --seq 8192 --to megatron-lm --out megatron-run\n"
    "  meshwright import megatron-run/train.sh --model llama3-8b --cluster h100:2x8";

struct ImportOptions {
  std::vector<std::string> files, left_out, arguments;
  std::optional<std::string> model, cluster, save, function;
  std::optional<std::int64_t> devices, sequence, microbatch;
  bool force = false;
};

std::int64_t layers_of(const ModelSizes& sizes) { return sizes.layers.value_or(0); }

// Sizes of a shipped model; of others none are known here.
std::optional<ModelSizes> sizes_of_model(const std::optional<std::string>& model,
                                         const Session& session) {
  if (!model) return {};
  const auto presets = preset_names(session.data / "models");
  if (std::ranges::find(presets, *model) == presets.end()) return {};
  return sizes_of_preset(*model, session.data);
}

PlanWishes wishes_of(const ImportOptions& options, const std::optional<Cluster>& cluster,
                     const std::optional<ModelSizes>& sizes) {
  PlanWishes wishes{.devices = options.devices,
                    .microbatch = options.microbatch,
                    .left_out = options.left_out,
                    .function = options.function,
                    .arguments = options.arguments};
  if (cluster) {
    wishes.cluster_devices = device_count(*cluster);
    wishes.devices_per_node = cluster->node_types.front().devices;
  }
  if (sizes && layers_of(*sizes) > 0) wishes.layers = sizes->layers;
  return wishes;
}

std::vector<std::string> differences(const ModelSizes& said, const ModelSizes& model,
                                     const std::string& name) {
  std::vector<std::string> notes;
  const auto compare = [&](std::string_view what, const auto& one, const auto& other) {
    if (one && other && *one != *other) {
      notes.push_back(fmt::format("{}: the file has {}, {} has {}", what, *one, name, *other));
    }
  };
  compare("layers", said.layers, model.layers);
  compare("hidden", said.hidden, model.hidden);
  compare("heads", said.heads, model.heads);
  compare("kv_heads", said.kv_heads, model.kv_heads);
  compare("ffn", said.ffn, model.ffn);
  return notes;
}

// The plan where everything is known that it needs; else why there is none.
std::variant<Plan, Reasons> planned(const ImportOutcome& outcome, const AskedSetting& asked) {
  const ImportedPlan& plan = outcome.plan;
  const PlanOptions batch{.model = *outcome.model,
                          .plan = plan.choices_text,
                          .global_batch = plan.global_batch,
                          .sequence = plan.sequence,
                          .precision = std::string(to_text(plan.precision))};
  try {
    require_precision(asked.cluster, plan.precision);
    const AskedPlan form = asked_plan(batch, asked);
    const auto& [choices, size] = short_form_of(form, batch);
    return plan_of(choices, size, asked.setting);
  } catch (const UsageError& error) {
    return Reasons{error.what()};
  }
}

void check_and_save(ImportOutcome& outcome, const ImportOptions& options, const Session& session) {
  if (!outcome.model || !outcome.cluster) {
    if (options.save) throw UsageError("--save needs --model and --cluster");
    return;
  }
  const AskedSetting asked({.plan = {.model = *outcome.model},
                            .cluster = *outcome.cluster,
                            .software = outcome.plan.software},
                           session);
  const auto result = planned(outcome, asked);
  if (const auto* reasons = std::get_if<Reasons>(&result)) {
    outcome.problems = {reasons_text(*reasons)};
    if (options.save) throw UsageError(fmt::format("--save: {}", outcome.problems.front()));
    return;
  }
  if (!options.save) return;
  write_text_file(*options.save, plan_text(std::get<Plan>(result), asked.model.dims));
  outcome.saved = *options.save;
}

void import_files(const ImportOptions& options, const Session& session) {
  if (options.save) require_new_file("--save", *options.save, options.force);
  std::optional<Cluster> cluster;
  if (options.cluster) cluster = cluster_from_option(*options.cluster, session);
  const auto sizes = sizes_of_model(options.model, session);
  std::vector<PlanFile> files;
  for (const std::string& file : options.files) {
    files.push_back({file, read_text_file(file, kLargestPlanFile)});
  }
  ImportOutcome outcome{.plan = import_plan(files, wishes_of(options, cluster, sizes),
                                            read_software(session.data / "software.json"),
                                            read_target_names(session.data)),
                        .model = options.model,
                        .cluster = options.cluster};
  if (options.sequence) outcome.plan.sequence = options.sequence;
  outcome.alike = presets_like(outcome.plan.model, session.data);
  if (outcome.alike.empty()) outcome.alike = presets_called(outcome.plan.model_name, session.data);
  if (!outcome.model && !outcome.alike.empty()) outcome.model = outcome.alike.front();
  if (sizes) outcome.notes = differences(outcome.plan.model, *sizes, *options.model);
  check_and_save(outcome, options, session);
  session.json ? print_json(import_json(outcome)) : print_text(import_text(outcome));
}

}  // namespace

void add_import_command(Command& program, Session& session) {
  Command command = program.subcommand("import", "Reads the files that you train with into a plan",
                                       kImportFooter);
  const auto options = std::make_shared<ImportOptions>();
  command.repeated("FILE", options->files, "The files, all of one run").required();
  command.text("--model", options->model, "A preset, a config.json, a folder or a graph file");
  command.text("--cluster", options->cluster, "A preset, a cluster file or h100:4x8");
  command.number("--devices", options->devices, "How many there are (counts before the file's)")
      .positive();
  command.number("--seq", options->sequence, "Sequence length, where no file says").positive();
  command.number("--micro-batch", options->microbatch, "Micro-batch, where no file says")
      .positive();
  command.text("--function", options->function,
               "Of a Python file with several: the one that is run");
  command.repeated("--arguments", options->arguments,
                   "Words that the script is started with: its $1, $2 and so on");
  command.repeated("--leave-out", options->left_out, "A key of a file to take as not there");
  command.text("--save", options->save, "Write the whole plan to a file");
  command.flag("--force", options->force, "Replace a file that is there");
  add_json_option(command, session);
  command.runs([options, &session] { import_files(*options, session); });
}

}  // namespace meshwright
