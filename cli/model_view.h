#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "costmodel/model/model_costs.h"

namespace meshwright {

std::string model_text(const Model& model, const CostOptions& options, const ModelCosts& profile,
                       bool with_ops);
nlohmann::ordered_json model_json(const Model& model, const CostOptions& options,
                                  const ModelCosts& profile);

}  // namespace meshwright
