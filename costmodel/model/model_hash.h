#pragma once

#include <string>

#include "costmodel/model/model.h"

namespace meshwright {

// Sixteen hexadecimal digits that differ when anything in the model does but the notes on it: what
// make_model keeps in Model::hash.
std::string hash_of(const Model& model);

}  // namespace meshwright
