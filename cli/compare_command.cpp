#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
#include "cli/compare_view.h"
#include "cli/setting_option.h"

namespace meshwright {
namespace {

constexpr auto kCompareFooter =
    "A and B are each a short form or a plan file (with --model and --cluster), a trace that\n"
    "`simulate --trace` or `run --trace` wrote, or what `simulate --json` printed: a prediction "
    "beside\n"
    "a measurement, or two plans. Times are those of the device that finishes last, every moment\n"
    "counted once, so they add up to the step; memory is that of the fullest device.\n\n"
    "Example: meshwright compare dp=8 dp=4,tp=2 --model gpt2 --cluster h100 --global-batch 32 "
    "--seq 1024";

struct CompareOptions {
  SettingOptions setting;
  std::string first, second;
};

void compare_steps(const CompareOptions& options, const Session& session) {
  std::optional<AskedSetting> asked;
  if (is_plan(options.first) || is_plan(options.second)) {
    require_given({{"--model", !options.setting.plan.model.empty()},
                   {"--cluster", !options.setting.cluster.empty()}});
    asked.emplace(options.setting, session);
  }
  const AskedSetting* setting = asked ? &*asked : nullptr;
  const ComparedStep first = compared_step(options.first, options.setting, setting);
  const ComparedStep second = compared_step(options.second, options.setting, setting);
  session.json ? print_json(compared_json(first, second))
               : print_text(compared_text(first, second));
}

}  // namespace

void add_compare_command(Command& program, Session& session) {
  Command command = program.subcommand(
      "compare", "Two plans, traces or reports, task kind by task kind", kCompareFooter);
  const auto options = std::make_shared<CompareOptions>();
  command.text("A", options->first, "A short form, a plan file, a trace or a report").required();
  command.text("B", options->second, "What it is compared with").required();
  add_setting_options(command, options->setting);
  add_json_option(command, session);
  command.runs([options, &session] { compare_steps(*options, session); });
}

}  // namespace meshwright
