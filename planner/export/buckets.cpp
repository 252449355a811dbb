#include "planner/export/buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace meshwright {
namespace {

constexpr std::array<std::string_view, 4> kSplitDims = {"heads", "kv_heads", "ffn", "vocabulary"};

Bytes element_of(const ExportSetting& setting) {
  return bytes_per_element(BufferElement::Real, setting.batch.precision);
}

std::int64_t elements_on_device(const Weight& weight, const Model& model, std::int64_t tp) {
  std::int64_t elements = 1;
  bool split = false;
  for (const DimId id : weight.dims) {
    const Dim& dim = model.dims[id.index()];
    elements *= dim.size;
    split = split || std::ranges::find(kSplitDims, dim.name) != kSplitDims.end();
  }
  return split ? (elements + tp - 1) / tp : elements;
}

}  // namespace

std::int64_t bucket_elements(const PlanChoices& choices, Precision precision) {
  return bucket_of(choices).value() / bytes_per_element(BufferElement::Real, precision).value();
}

Bytes layer_weights(const PlanChoices& choices, const ExportSetting& setting) {
  std::int64_t largest = 0;
  for (const Block& block : setting.model.blocks) {
    if (block.count == 1) continue;
    std::int64_t elements = 0;
    for (const Weight& weight : block.weights) {
      elements += elements_on_device(weight, setting.model, choices.tp);
    }
    largest = std::max(largest, elements);
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
