#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "costmodel/model/model_profile.h"

namespace meshwright {

std::string model_text(const Model& model, const ProfileOptions& options,
                       const ModelProfile& profile, bool with_ops);
nlohmann::ordered_json model_json(const Model& model, const ProfileOptions& options,
                                  const ModelProfile& profile);

}  // namespace meshwright
