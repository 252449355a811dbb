#include <fmt/format.h>

#include "costmodel/base/input_error.h"
#include "import/input/text_lines.h"
#include "import/plan/shell_script.h"

namespace meshwright {

std::vector<ForeignSetting> options_in(const ShellLaunch& launch, const std::string& source) {
  std::vector<ForeignSetting> settings;
  for (const ShellWord& word : launch.words) {
    const std::string text = to_text(word.value);
    const auto* known = std::get_if<std::string>(&word.value);
    if (known && known->starts_with("--") && known->size() > 2) {
      const auto equals = known->find('=');
      settings.push_back({known->substr(0, equals), {}, false, source, word.line});
      if (equals != known->npos) settings.back().values.push_back(known->substr(equals + 1));
      continue;
    }
    // Behind a value, nobody knows whether it has options in it.
    if (settings.empty() || (!known && !settings.back().values.empty())) {
      fail_line(source, word.line,
                fmt::format("{}: {}, expected an option such as --tensor-model-parallel-size 8",
                            printable(text), known ? "is no option" : "is computed"));
    }
    settings.back().values.push_back(word.value);
  }
  return settings;
}

}  // namespace meshwright
