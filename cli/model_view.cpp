#include "cli/model_view.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/text_table.h"
#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

using TableRows = std::vector<std::vector<std::string>>;

constexpr auto kFormula =
    "matrix products only, 2 per multiply-add; attention over the full square (no causal "
    "discount); backward = input gradients + gradients of trainable weights";

std::vector<std::string> work_header(const std::string& first, const std::string& second) {
  return {first,    second,      "params",    "forward", "in grad",
          "w grad", "moved fwd", "moved bwd", "saved",   "temporary"};
}

// Short enough for a table: nothing is a dash, and the unit of FLOPs stands in the title.
std::string cell(Flops flops) {
  if (flops == Flops(0)) return "-";
  const std::string text = to_text(flops);
  return text.substr(0, text.size() - std::string_view("FLOP").size());
}

std::string cell(Bytes bytes) { return bytes == 0_B ? "-" : to_text(bytes); }

std::vector<std::string> work_row(const std::string& first, const std::string& second,
                                  const Work& work) {
  return {first,
          second,
          work.parameters == 0 ? "-" : count_to_text(work.parameters),
          cell(work.forward),
          cell(work.input_gradient),
          cell(work.weight_gradient),
          cell(work.forward_moved),
          cell(work.backward_moved),
          cell(work.saved),
          cell(work.temporary)};
}

std::string kinds_text(const ModelCosts& profile) {
  std::map<OpKind, std::pair<std::int64_t, Work>> kinds;
  for (const BlockCosts& block : profile.blocks) {
    for (const OpCosts& op : block.ops) {
      auto& [count, work] = kinds[op.kind];
      count += block.count;
      work += op.work * block.count;
    }
  }
  TableRows rows = {work_header("kind", "ops")};
  for (const auto& [kind, entry] : kinds) {
    rows.push_back(work_row(std::string(to_text(kind)), std::to_string(entry.first), entry.second));
  }
  return table_text(rows, 2);
}

std::string blocks_text(const ModelCosts& profile, bool with_ops) {
  TableRows rows = {work_header("block, once", "count")};
  for (const BlockCosts& block : profile.blocks) {
    rows.push_back(work_row(printable(block.name), fmt::format("x {}", block.count), block.work));
    if (!with_ops) continue;
    for (const OpCosts& op : block.ops) {
      rows.push_back(work_row("  " + printable(op.name), std::string(to_text(op.kind)), op.work));
    }
  }
  rows.push_back(work_row("all", "", profile.total));
  return table_text(rows, 2);
}

Flops model_flops(const ModelCosts& profile) {
  return profile.total.forward + profile.total.backward();
}

std::string per_token_text(const CostOptions& options, const ModelCosts& profile) {
  const Flops all = model_flops(profile);
  const std::int64_t samples = options.micro_batch;
  const auto each = profile.tokens ? all / *profile.tokens : all / samples;
  return fmt::format("model FLOPs per {}: {}, forward and backward\n  ({})\n",
                     profile.tokens ? "token" : "sample", to_text(each),
                     wrapped_text(kFormula, 95, 3));
}

std::string sizes_text(const Model& model) {
  std::string text;
  for (const Dim& dim : model.dims) {
    if (dim.role != DimRole::Fixed) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", printable(dim.name), dim.size);
  }
  return text;
}

nlohmann::ordered_json work_json(const Work& work) {
  return {{"parameters", work.parameters},
          {"forward_flops", work.forward.value()},
          {"input_gradient_flops", work.input_gradient.value()},
          {"weight_gradient_flops", work.weight_gradient.value()},
          {"backward_flops", work.backward().value()},
          {"forward_moved_bytes", work.forward_moved.value()},
          {"backward_moved_bytes", work.backward_moved.value()},
          {"activation_bytes", work.saved.value()},
          {"temporary_bytes", work.temporary.value()}};
}

}  // namespace

std::string model_text(const Model& model, const CostOptions& options, const ModelCosts& profile,
                       bool with_ops) {
  const ParameterCount& count = profile.parameters;
  std::string text = fmt::format("{}: {} parameters ({})\n", printable(model.name),
                                 count_to_text(count.total), count.total);
  if (count.active != count.total) {
    text +=
        fmt::format("  active for one token: {} ({})\n", count_to_text(count.active), count.active);
  }
  if (count.trainable != count.total) {
    text += fmt::format("  trainable: {} ({})\n", count_to_text(count.trainable), count.trainable);
  }
  for (const std::string& note : model.notes) text += fmt::format("  note: {}\n", printable(note));
  text += "  " + wrapped_text(sizes_text(model), 95, 2) + "\n";
  text += fmt::format(
      "\nmicro-batch {}, sequence {}, {} per element, kernel set {}; work in FLOPs\n",
      options.micro_batch, options.sequence, to_text(options.element), to_text(options.kernels));
  text += blocks_text(profile, with_ops);
  text += "\nthe whole model by kind of op\n" + kinds_text(profile) + "\n";
  text += per_token_text(options, profile);
  text += fmt::format("activations saved for backward: {}\n", to_text(profile.total.saved));
  return text;
}

nlohmann::ordered_json model_json(const Model& model, const CostOptions& options,
                                  const ModelCosts& profile) {
  nlohmann::ordered_json json = {{"name", model.name},
                                 {"parameters", profile.parameters.total},
                                 {"active_parameters", profile.parameters.active},
                                 {"trainable_parameters", profile.parameters.trainable},
                                 {"micro_batch", options.micro_batch},
                                 {"sequence", options.sequence},
                                 {"element_bytes", options.element.value()},
                                 {"kernels", to_text(options.kernels)},
                                 {"notes", model.notes}};
  nlohmann::ordered_json total = work_json(profile.total);
  total.erase("parameters");
  json.update(total);
  json["linear_flops"] = profile.linear_forward.value();
  json["attention_flops"] = profile.attention_forward.value();
  if (profile.tokens) {
    json["tokens"] = *profile.tokens;
    json["flops_per_token"] =
        static_cast<double>(model_flops(profile).value()) / static_cast<double>(*profile.tokens);
  }
  json["flops_formula"] = kFormula;
  json["blocks"] = nlohmann::ordered_json::array();
  for (const BlockCosts& block : profile.blocks) {
    nlohmann::ordered_json entry = {{"name", block.name}, {"count", block.count}};
    entry.update(work_json(block.work));
    entry["ops"] = nlohmann::ordered_json::array();
    for (const OpCosts& op : block.ops) {
      nlohmann::ordered_json line = {{"name", op.name}, {"kind", to_text(op.kind)}};
      line.update(work_json(op.work));
      entry["ops"].push_back(std::move(line));
    }
    json["blocks"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace meshwright
