#include "cli/plan_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cli/model_option.h"
#include "costmodel/base/input_error.h"
#include "costmodel/base/json_input.h"
#include "costmodel/cluster/cluster_hash.h"
#include "simulator/lowering/check_plan.h"
#include "simulator/plan/plan_file.h"

namespace meshwright {
namespace {

PlanChoices parse_choices(const PlanOptions& options, const PlanDefaults& defaults,
                          Precision precision) {
  try {
    return parse_plan_choices(options.plan, choices_of(defaults, precision));
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
      precision_from(options, plan.precision) != plan.precision) {
    throw UsageError(fmt::format(
        "{}: the plan has global batch {}, sequence {}, precision {}; leave these options out",
        printable(options.plan), plan.global_batch, plan.sequence, to_text(plan.precision)));
  }
  return plan;
}

}  // namespace

void add_plan_options(Command& command, PlanOptions& options) {
  command.text("--model", options.model, "A preset, a config.json, a folder or a graph file");
  command.number("--global-batch", options.global_batch, "Samples of a step (not with a plan file)")
      .positive();
  command.number("--seq", options.sequence, "Sequence length (not with a plan file)").positive();
  command.text(
      "--precision", options.precision,
      "bf16, fp16, fp32, fp8 or fp64 (not with a plan file; if not given, what the devices\n"
      "are used in: bf16, fp16 or fp32)");
}

void require_given(const std::vector<std::pair<std::string, bool>>& options) {
  for (const auto& [name, given] : options) {
    if (!given) throw UsageError(fmt::format("{} is required (--help shows the usage)", name));
  }
}

AskedPlan asked_plan(const PlanOptions& options, const OpGraph& graph, const PlanDefaults& defaults,
                     Precision precision) {
  if (options.plan.empty()) {
    throw UsageError(fmt::format("{}is empty: expected a short form such as dp=2,tp=2, or a file",
                                 options.plan_option));
  }
  if (!looks_like_choices(options.plan)) return read_file(options, graph);
  precision = precision_from(options, precision);
  const PlanChoices choices = parse_choices(options, defaults, precision);
  return ShortForm{
      choices,
      {.global_batch = options.global_batch.value_or(choices.dp * choices.microbatch * choices.pp),
       .sequence = sequence_or_default(options.sequence, graph),
       .precision = precision}};
}

Precision precision_from(const PlanOptions& options, Precision otherwise) {
  if (!options.precision) return otherwise;
  if (const auto precision = parse_precision(*options.precision)) return *precision;
  throw UsageError(fmt::format("--precision {}: expected bf16, fp16, fp32, fp64 or fp8",
                               printable(*options.precision)));
}

Precision usual_precision(const Cluster& cluster) {
  for (const Precision precision : {Precision::BF16, Precision::FP16}) {
    if (std::ranges::all_of(cluster.node_types, [&](const NodeType& node) {
          return node.device.peak.contains(precision);
        })) {
      return precision;
    }
  }
  return Precision::FP32;
}

std::int64_t devices_needed(const AskedPlan& asked) {
  if (const auto* plan = std::get_if<Plan>(&asked)) {
    return static_cast<std::int64_t>(device_count(*plan));
  }
  return device_count(std::get<ShortForm>(asked).choices);
}

// One that holds for several ops of a layer ("layout layers.*.q: kv_heads is
// 8, ...") stands there once, with how many more it holds for.
std::string reasons_text(const std::vector<std::string>& reasons) {
  std::vector<std::pair<std::string, std::string>> named;  // "layout layers.*.q", and why
  std::map<std::pair<std::string, std::string>, std::size_t> counts;  // by "layout" and why
  const auto key_of = [](const auto& entry) {
    return std::pair(entry.first.substr(0, entry.first.find(' ')), entry.second);
  };
  for (const std::string& reason : reasons) {
    const auto colon = reason.find(": ");
    const bool of_op = reason.starts_with("layout ") || reason.starts_with("op ");
    named.emplace_back(of_op && colon != reason.npos
                           ? std::pair(reason.substr(0, colon), reason.substr(colon))
                           : std::pair(std::string(), reason));
    ++counts[key_of(named.back())];
  }
  std::vector<std::string> texts;
  for (const auto& entry : named) {
    std::size_t& count = counts[key_of(entry)];
    if (count == 0) continue;
    texts.push_back(
        entry.first +
        (count > 1 && !entry.first.empty() ? fmt::format(" and {} more", count - 1) : "") +
        entry.second);
    count = 0;
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

const ShortForm& short_form_of(const AskedPlan& asked, const PlanOptions& options) {
  if (const auto* form = std::get_if<ShortForm>(&asked)) return *form;
  throw UsageError(fmt::format("{}{}: expected a short form such as dp=2,tp=2, found a file",
                               options.plan_option, printable(options.plan)));
}

Plan plan_for(const AskedPlan& asked, const PlanOptions& options, const Setting& setting,
              bool any_cluster) {
  if (const auto* saved = std::get_if<Plan>(&asked)) {
    Plan plan = *saved;
    if (any_cluster) plan.cluster = {setting.cluster.name, hash_of(setting.cluster)};
    const auto problems = check_plan(plan, setting.model, setting.cluster);
    if (problems.empty()) return plan;
    throw InputError(fmt::format("{}: {}", printable(options.plan), reasons_text(problems)));
  }
  const auto& [choices, batch] = std::get<ShortForm>(asked);
  auto planned = plan_of(choices, batch, setting);
  if (auto* plan = std::get_if<Plan>(&planned)) return std::move(*plan);
  throw UsageError(fmt::format("{}{}: {}", options.plan_option, printable(options.plan),
                               reasons_text(std::get<Reasons>(planned))));
}

}  // namespace meshwright
