#include <fmt/format.h>

#include "costmodel/base/input_error.h"
#include "import/input/text_lines.h"
#include "import/plan/shell_script.h"

namespace meshwright {
namespace {

// "&> file" of a command that stands in a variable and is run by eval.
bool is_redirection(const std::string& word) {
  const auto sign = word.find_first_of("<>|&");
  return sign == 0 || (sign == 1 && word[0] >= '0' && word[0] <= '9');
}

}  // namespace

std::vector<ForeignSetting> options_in(const ShellLaunch& launch, const std::string& source) {
  std::vector<ForeignSetting> settings;
  for (const ShellWord& word : launch.words) {
    const std::string text = to_text(word.value);
    const auto* known = std::get_if<std::string>(&word.value);
    if (known && is_redirection(*known)) break;
    if (known && known->starts_with("--") && known->size() > 2) {
      const auto equals = known->find('=');
      settings.push_back({known->substr(0, equals), {}, false, source, word.line});
      if (equals != known->npos) settings.back().values.push_back(known->substr(equals + 1));
      continue;
    }
    // Behind a value, nobody knows whether it has options in it.
    if (settings.empty() || (!known && !settings.back().values.empty())) {
      fail_line(source, word.line,
                fmt::format("{}: {}", printable(text),
                            known ? "is no option, expected such as --tensor-model-parallel-size 8"
                                  : "is computed, or set by nothing in the file: give the options "
                                    "themselves, as `echo` prints them, or the words that the "
                                    "script is started with by --arguments"));
    }
    settings.back().values.push_back(word.value);
  }
  return settings;
}

}  // namespace meshwright
