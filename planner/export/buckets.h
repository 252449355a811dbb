#pragma once

#include "planner/export/target.h"

// What targets mean by a bucket, where that is not a number of bytes of weights.
namespace meshwright {

// Elements of a bucket, as weights of the plan's precision.
std::int64_t bucket_elements(const PlanChoices& choices, Precision precision);

// Weights of one layer on a device, the largest kind of layer.
Bytes layer_weights(const PlanChoices& choices, const ExportSetting& setting);
// All weights there are: no device has more.
Bytes all_weights(const ExportSetting& setting);

// For targets that gather and reduce layer by layer: a bucket holds one layer and not two.
void check_bucket_is_layer(Refusals& refusals, const PlanChoices& choices,
                           const ExportSetting& setting);

// What such targets do with experts, for the README.
inline constexpr const char* kExpertsByThemselves =
    "Experts of a layer are gathered by themselves, and its other weights; of the smaller of these "
    "the plan gathers several layers' together.";

}  // namespace meshwright
