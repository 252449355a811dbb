#include <fmt/format.h>

#include "planner/export/launch.h"
#include "planner/export/target.h"

namespace meshwright {
namespace {

void check_own_model(Refusals&, const DecoderSpec&, const ExportSetting&) {}

std::vector<ExportedFile> write_executor(const Export& what) {
  const NodeScript script{
      .about = about_text(what) + "\nWords given to it are added: --steps 1000 --data FILE",
      .starter = "meshwright run",
      .program = "--model model/config.json --plan plan.json",
      .options = {}};
  return {{"train.sh", node_script(script), true},
          {"model/config.json", what.setting.decoder->config}};
}

std::string start_executor(const Export&) { return "bash train.sh --steps 50"; }

std::vector<std::string> executor_notes(const Export&) {
  return {"`meshwright run` has the plan's devices as threads of one process, on this machine."};
}

}  // namespace

TargetWriter executor_writer() {
  return {.target = {"executor", "1", "meshwright", "what `meshwright run` reads"},
          .abilities = {.precisions = {Precision::FP32, Precision::FP64},
                        .kernels = {KernelSet::Executor},
                        .orders = {},
                        .heads = HeadRule::Uneven,
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
