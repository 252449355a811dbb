#include "cli/plan_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/model_option.h"
#include "costmodel/base/input_error.h"
#include "costmodel/base/json_input.h"
#include "costmodel/cluster/cluster_hash.h"
#include "simulator/lowering/check_plan.h"
#include "simulator/plan/plan_file.h"

namespace meshwright {
namespace {

Precision precision_of(const PlanOptions& options) {
  const std::string text = options.precision.value_or("fp32");
  const auto precision = parse_precision(text);
  if (!precision) {
    throw UsageError(
        fmt::format("--precision {}: expected bf16, fp16, fp32, fp64 or fp8", printable(text)));
  }
  return *precision;
}

PlanChoices parse_choices(const PlanOptions& options, const PlanDefaults& defaults) {
  try {
    return parse_plan_choices(options.plan, choices_of(defaults, precision_of(options)));
  } catch (const InputError& error) {
    throw UsageError(fmt::format("--{}", error.what()));
  }
}

Plan read_file(const PlanOptions& options, const OpGraph& graph) {
  Plan plan = read_plan(JsonInput::read(options.plan), graph.dims);
  const auto differ = [](const auto& given, const auto& planned) {
    return given && *given != planned;
  };
  if (differ(options.global_batch, plan.global_batch) || differ(options.sequence, plan.sequence) ||
      (options.precision && precision_of(options) != plan.precision)) {
    throw UsageError(fmt::format(
        "{}: the plan has global batch {}, sequence {}, precision {}; leave these options out",
        printable(options.plan), plan.global_batch, plan.sequence, to_text(plan.precision)));
  }
  return plan;
}

}  // namespace

void add_plan_options(Command& command, PlanOptions& options) {
  command.text("--model", options.model, "A preset, a config.json, a folder or a graph file")
      .required();
  command
      .text("--plan", options.plan,
            "A plan file or a short form: dp=2,tp=2,pp=2,zero=1,shard=2,microbatch=1,\n"
            "schedule=1f1b|gpipe|interleaved,virtual_stages=2,layers=5+7+7+5,\n"
            "sequence_parallel=true,recompute=selective|products|full|uniform:2|first:3,\n"
            "offload=activations|optimizer|activations+optimizer,\n"
            "bucket=SIZE,overlap=true|false,prefetch=N,reshard=true|false,\n"
            "kernels=executor|flash|eager|unfused,\n"
            "gradients=fp32|bf16|fp16")
      .required();
  command.number("--global-batch", options.global_batch, "Samples of a step (of a short form)")
      .positive();
  command.number("--seq", options.sequence, "Sequence length (of a short form)").positive();
  command.text("--precision", options.precision,
               "fp32 (if not given), bf16, fp16, fp8 or fp64 (of a short form)");
}

AskedPlan asked_plan(const PlanOptions& options, const OpGraph& graph,
                     const PlanDefaults& defaults) {
  if (!looks_like_choices(options.plan)) return read_file(options, graph);
  const PlanChoices choices = parse_choices(options, defaults);
  return ShortForm{
      choices,
      {.global_batch = options.global_batch.value_or(choices.dp * choices.microbatch * choices.pp),
       .sequence = sequence_or_default(options.sequence, graph),
       .precision = precision_of(options)}};
}

std::int64_t devices_needed(const AskedPlan& asked) {
  if (const auto* plan = std::get_if<Plan>(&asked)) {
    return static_cast<std::int64_t>(device_count(*plan));
  }
  const PlanChoices& choices = std::get<ShortForm>(asked).choices;
  return checked_product({choices.dp, choices.tp, choices.pp});
}

const ShortForm& short_form_of(const AskedPlan& asked, const PlanOptions& options) {
  if (const auto* form = std::get_if<ShortForm>(&asked)) return *form;
  throw UsageError(fmt::format("--plan {}: expected a short form such as dp=2,tp=2, found a file",
                               printable(options.plan)));
}

Plan plan_for(const AskedPlan& asked, const PlanOptions& options, const Setting& setting,
              bool any_cluster) {
  if (const auto* saved = std::get_if<Plan>(&asked)) {
    Plan plan = *saved;
    if (any_cluster) plan.cluster = {setting.cluster.name, hash_of(setting.cluster)};
    const auto problems = check_plan(plan, setting.model, setting.cluster);
    if (problems.empty()) return plan;
    throw InputError(fmt::format("{}: {}", printable(options.plan), fmt::join(problems, "; ")));
  }
  const auto& [choices, batch] = std::get<ShortForm>(asked);
  auto planned = plan_of(choices, batch, setting);
  if (auto* plan = std::get_if<Plan>(&planned)) return std::move(*plan);
  throw UsageError(fmt::format("--plan {}: {}", printable(options.plan),
                               fmt::join(std::get<Reasons>(planned), "; ")));
}

}  // namespace meshwright
