#pragma once

#include <string>

#include "costmodel/model/op.h"

namespace meshwright {

// What is wrong with the numbers of attributes, in words; empty: one can compute with them.
std::string numbers_problem(const OpAttributes& attributes);

}  // namespace meshwright
