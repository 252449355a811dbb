#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/model/op.h"

namespace meshwright {

struct Plan;

// What a device runs, in short texts: hashes or names, compared as they are.
struct RunIdentity {
  std::string plan;
  std::string model;
  std::string build;     // of the program that runs it
  std::string settings;  // what it was told besides, such as seed and learning rate
};
// Of a plan for a model with these dimensions.
RunIdentity identity_of(const Plan& plan, const std::vector<Dim>& dims);

// The number that the linker gave the running program, different for every build of different
// code. None: it was linked without.
std::optional<std::string> build_id();

}  // namespace meshwright
