#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
#include "cli/model_option.h"
#include "cli/model_view.h"
#include "cli/text_table.h"
#include "costmodel/base/input_error.h"
#include "costmodel/base/precision.h"
#include "costmodel/base/presets.h"
#include "costmodel/base/write_file.h"
#include "costmodel/model/graph_file.h"
#include "costmodel/model/model_name.h"

namespace meshwright {
namespace {

constexpr auto kModelFooter =
    "M is a preset (--list), a Hugging Face config.json, a folder that holds one, or a graph file\n"
    "(data/README.md). What names no model ends with exit code 2, a bad file with 20.\n\n"
    "FLOPs are those of matrix products, two per multiply-add, attention over the full square.\n\n"
    "Examples: meshwright model llama3-8b --seq 8192\n"
    "          meshwright model gpt2 --kernels unfused --ops";

struct ModelOptions {
  std::optional<std::string> model;
  std::optional<std::int64_t> sequence;
  std::int64_t micro_batch = 1;
  std::string precision = "bf16";
  std::string kernels = "flash";
  std::optional<std::string> graph;
  bool ops = false;
  bool list = false;
};

void print_presets(const Session& session) {
  std::vector<std::vector<std::string>> rows = {{"preset", "parameters", "active"}};
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const std::string& name : preset_names(session.data / "models")) {
    const auto count = count_parameters(make_model(read_model(name, session.data)));
    rows.push_back({name, count_to_text(count.total), count_to_text(count.active)});
    json.push_back(
        {{"name", name}, {"parameters", count.total}, {"active_parameters", count.active}});
  }
  session.json ? print_json({{"presets", json}}) : print_text(table_text(rows, 0));
}

CostOptions profile_options(const ModelOptions& options, const OpGraph& graph) {
  require_positive("--micro-batch", options.micro_batch);
  const auto precision = parse_precision(options.precision);
  if (!precision) {
    throw UsageError(fmt::format("--precision {}: expected bf16, fp16, fp32, fp64 or fp8",
                                 printable(options.precision)));
  }
  const auto kernels = parse_kernel_set(options.kernels);
  if (!kernels) {
    throw UsageError(
        fmt::format("--kernels {}: expected {}", printable(options.kernels), kernel_set_names()));
  }
  return {.micro_batch = options.micro_batch,
          .sequence = sequence_or_default(options.sequence, graph),
          .element = bytes_per_element(*precision),
          .kernels = *kernels};
}

void show_model(const ModelOptions& options, const Session& session) {
  if (options.list == options.model.has_value()) {
    throw UsageError(
        "give one model: a preset (--list shows them), a config.json, a folder or a graph file");
  }
  if (options.list) return print_presets(session);
  const OpGraph graph = model_from_option(*options.model, session);
  const CostOptions profile = profile_options(options, graph);
  if (options.graph) write_text_file(*options.graph, graph_text(graph));
  const Model model = make_model(graph);
  try {
    const ModelCosts result = model_costs(model, profile);
    session.json ? print_json(model_json(model, profile, result))
                 : print_text(model_text(model, profile, result, options.ops));
  } catch (const InputError& error) {
    throw UsageError(fmt::format("--micro-batch {} --seq {}: {}", profile.micro_batch,
                                 profile.sequence, error.what()));
  }
}

}  // namespace

void add_model_command(Command& program, Session& session) {
  Command command = program.subcommand(
      "model", "What a model is made of and what a step of it costs", kModelFooter);
  const auto options = std::make_shared<ModelOptions>();
  command.text("M", options->model, "The model");
  command.number("--seq", options->sequence, "Sequence length (4096, or the model's longest)");
  command.number("--micro-batch", options->micro_batch, "Samples at once").with_default();
  command.text("--precision", options->precision, "Of weights and activations").with_default();
  command
      .text("--kernels", options->kernels,
            "What is saved for backward: flash (blocked attention), eager (and the loss of\n"
            "PyTorch), unfused, or as Meshwright's executor does")
      .with_default();
  command.flag("--ops", options->ops, "Show every op of every block");
  command.text("--graph", options->graph, "Also write the model as a graph file");
  command.flag("--list", options->list, "List the presets");
  add_json_option(command, session);
  command.runs([options, &session] { show_model(*options, session); });
}

}  // namespace meshwright
