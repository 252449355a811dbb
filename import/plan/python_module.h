#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "import/plan/foreign_settings.h"

namespace meshwright {

// Settings that a Python file assigns, read without running any of it:
//   cfg.model.tp = 4                  "cfg.model.tp" 4
//   cfg = Container(train=Train(x=1)) "cfg.train.x" 1, "cfg.train" Train(), "cfg" Container()
//   return Container(a=1)             "a" 1
//   HybridParallelPlugin(tp_size=2)   "HybridParallelPlugin.tp_size" 2, wherever it stands
//   model.enable()                    "model.enable()"
// Literals, lists of them, names that were assigned one, and dotted names are values; every other
// expression is Computed, and so is whatever a condition or loop assigns. Elements that are lists
// are settings of their own: "parts[0]". Of functions at the top only `function` is read, where it
// is given. Throws InputError with `source` and the line for brackets and quotes that are not
// closed, and where several functions set a name to different values and none of them is given.
std::vector<ForeignSetting> parse_python(std::string_view text, const std::string& source,
                                         const std::optional<std::string>& function = {});

}  // namespace meshwright
