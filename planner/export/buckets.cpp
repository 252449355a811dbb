#include "planner/export/buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "simulator/choices/stage_axes.h"

namespace meshwright {
namespace {

constexpr std::array<std::string_view, 4> kSplitDims = {"heads", "kv_heads", "ffn", "vocabulary"};

Bytes element_of(const ExportSetting& setting) {
  return bytes_per_element(BufferElement::Real, setting.batch.precision);
}

bool has_dim(const Weight& weight, const Model& model, std::string_view name) {
  return std::ranges::any_of(weight.dims,
                             [&](DimId id) { return model.dims[id.index()].name == name; });
}

bool is_experts(const Weight& weight, const Model& model) {
  return has_dim(weight, model, "experts") && has_dim(weight, model, "expert_ffn");
}

std::int64_t elements_on_device(const Weight& weight, const Model& model,
                                const PlanChoices& choices) {
  std::int64_t elements = 1;
  for (const DimId id : weight.dims) elements *= model.dims[id.index()].size;
  const bool split = std::ranges::any_of(
      kSplitDims, [&](std::string_view name) { return has_dim(weight, model, name); });
  const std::int64_t parts = is_experts(weight, model) ? choices.ep * expert_tensor_degree(choices)
                             : split                   ? choices.tp
                                                       : 1;
  return (elements + parts - 1) / parts;
}

}  // namespace

std::int64_t bucket_elements(const PlanChoices& choices, Precision precision) {
  return bucket_of(choices).value() / bytes_per_element(BufferElement::Real, precision).value();
}

Bytes layer_weights(const PlanChoices& choices, const ExportSetting& setting) {
  std::int64_t largest = 0;
  for (const Block& block : setting.model.blocks) {
    if (block.count == 1) continue;
    std::int64_t experts = 0, others = 0;
    for (const Weight& weight : block.weights) {
      const std::int64_t elements = elements_on_device(weight, setting.model, choices);
      (is_experts(weight, setting.model) ? experts : others) += elements;
    }
    // Experts that are shared out are gathered by themselves.
    largest = std::max(largest, choices.ep > 1 ? std::max(experts, others) : experts + others);
  }
  return element_of(setting) * largest;
}

Bytes all_weights(const ExportSetting& setting) {
  return element_of(setting) * count_parameters(setting.model).total;
}

void check_bucket_is_layer(Refusals& refusals, const PlanChoices& choices,
                           const ExportSetting& setting) {
  const Bytes layer = layer_weights(choices, setting), bucket = bucket_of(choices);
  if (repeated_weights(choices) == 1 || (layer <= bucket && bucket < layer * 2)) return;
  refuse(refusals, "bucket", to_text(bucket),
         fmt::format("it gathers and reduces layer by layer: expected at least the {} B of a "
                     "layer's weights and less than those of two",
                     layer.value()));
}

}  // namespace meshwright
