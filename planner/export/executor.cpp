#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "costmodel/base/input_error.h"
#include "planner/export/launch.h"
#include "planner/export/target.h"

namespace meshwright {
namespace {

// A model is called as the folder of its config.json is, and plans are for models of that name.
bool is_folder_name(std::string_view name) {
  return !name.empty() && !name.starts_with('.') && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
  });
}

void check_own_model(Refusals& refusals, const DecoderSpec&, const ExportSetting& setting) {
  if (is_folder_name(setting.model.name)) return;
  refuse(refusals, "model", printable(setting.model.name),
         "expected a name of letters, digits, '.', '-' and '_', since a folder is called so");
}

std::vector<ExportedFile> write_executor(const Export& what) {
  const NodeScript script{
      .about = about_text(what) + "\nWords given to it are added: --steps 1000 --data FILE",
      .starter = "meshwright run",
      .program = fmt::format("--model {}/config.json --plan plan.json", what.setting.model.name)};
  return {{"train.sh", node_script(script), true},
          {what.setting.model.name + "/config.json", what.setting.decoder->config}};
}

std::string start_executor(const Export&) { return "bash train.sh --steps 50"; }

std::vector<std::string> executor_notes(const Export&) {
  return {"`meshwright run` has the plan's devices as threads of one process, on this machine."};
}

}  // namespace

TargetWriter executor_writer() {
  return {.target = {"executor", "1", "meshwright", "what `meshwright run` reads"},
          .any_model = true,
          .abilities = {.precisions = {Precision::FP32, Precision::FP64},
                        .kernels = {KernelSet::Executor},
                        .orders = {},
                        .heads = HeadRule::Uneven,
                        .tensor_forms = true,
                        .schedules = {Schedule::OneForwardOneBackward, Schedule::GPipe,
                                      Schedule::Interleaved},
                        .any_chunks = true,
                        .any_layers = true,
                        .zero = {0, 1, 2, 3},
                        .zero_with_pipeline = {0, 1, 2, 3},
                        .shard_with = {1, 2, 3},
                        .recomputes = {Recompute::None, Recompute::Selective, Recompute::Products,
                                       Recompute::Uniform, Recompute::First, Recompute::Drop},
                        .segments = true,
                        .reruns = {true, false},
                        .offload_optimizer = true,
                        .offload_activations = true,
                        .overlaps = {true, false},
                        .reshards = {true, false},
                        .any_prefetch = true},
          .rules = {},
          .check_model = check_own_model,
          .write = write_executor,
          .start = start_executor,
          .notes = executor_notes};
}

}  // namespace meshwright
