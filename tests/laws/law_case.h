#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "costmodel/model/model.h"
#include "executor/device.h"
#include "simulator/plan/plan.h"

namespace meshwright {

// A model, a plan and a batch as named numbers, so that a case can be printed, read again and made
// smaller number by number. Which there are: law_case.cpp.
using LawCase = std::map<std::string, std::int64_t>;

// On 1 to 16 devices; the same for the same seed with every standard library.
LawCase random_law_case(std::uint32_t seed);

// "family=3,hidden=16,...", and back. Throws std::invalid_argument.
std::string to_text(const LawCase& law_case);
LawCase parse_law_case(const std::string& text);

Model model_of(const LawCase& law_case);
std::int64_t global_batch_of(const LawCase& law_case);
// The short form of the plan, as far as it goes: segments and orders of their own are not in it.
std::string choices_of(const LawCase& law_case);
// None: the numbers do not go together.
std::optional<Plan> plan_of(const LawCase& law_case, const Model& model);
// The plan of one device for the same batch.
Plan one_device_plan(const LawCase& law_case, const Model& model);

// The largest relative error of losses, norms, gradients and weights against one device, which is a
// processor. Throws what lowering or the run throws.
double error_of(const LawCase& law_case, const DeviceMaker& make_device = {});

// A case that fails in as few and as small numbers as can be found by changing one at a time.
template <class Fails>
LawCase shrink(LawCase law_case, Fails fails) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (auto& [name, number] : law_case) {
      const std::int64_t before = number;
      for (const std::int64_t less : {std::int64_t{0}, std::int64_t{1}, before / 2, before - 1}) {
        if (less < 0 || less >= before) continue;
        number = less;
        if (fails(law_case)) {
          smaller = true;
          break;
        }
        number = before;
      }
    }
  }
  return law_case;
}

}  // namespace meshwright
