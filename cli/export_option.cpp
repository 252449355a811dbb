#include "cli/export_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "costmodel/base/input_error.h"
#include "costmodel/base/presets.h"

namespace meshwright {
namespace {

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const ExportTarget& target : export_targets()) {
    if (std::ranges::find(names, target.name) == names.end()) names.push_back(target.name);
  }
  return names;
}

std::vector<std::string> versions_of(const std::string& name) {
  std::vector<std::string> versions;
  for (const ExportTarget& target : export_targets()) {
    if (target.name == name) versions.push_back(target.version);
  }
  return versions;
}

}  // namespace

const ExportTarget& target_from_option(const std::string& option, const std::string& name,
                                       const std::optional<std::string>& version) {
  const std::vector<std::string> names = target_names();
  if (std::ranges::find(names, name) == names.end()) {
    throw UsageError(fmt::format("{} {}: expected {}.{}", option, printable(name),
                                 fmt::join(names, ", "), hint_for(name, names)));
  }
  if (const ExportTarget* target = find_export_target(name, version)) return *target;
  throw UsageError(fmt::format("--target-version {}: {} is written for {} alone: names change",
                               printable(*version), name, fmt::join(versions_of(name), " and ")));
}

AskedExport::AskedExport(const SettingOptions& options, const AskedSetting& asked,
                         const BatchChoice& batch, const Session& session)
    : decoder(read_decoder_file(options.plan.model, session.data)),
      setting{asked.model, asked.cluster, decoder, batch} {}

std::string plan_for_target(const ExportTarget& target, const SettingOptions& options,
                            const AskedSetting& asked, const Session& session) {
  const AskedPlan form = asked_plan(options.plan, asked);
  const auto* said = std::get_if<ShortForm>(&form);
  if (!said) return options.plan.plan;
  const AskedExport to_export(options, asked, said->batch, session);
  const PlanChoices defaults = choices_of(asked.software.plan, said->batch.precision);
  return to_text(carried_form(target, options.plan.plan, defaults, to_export.setting), defaults);
}

TargetSpace target_space(const ExportTarget& target, std::shared_ptr<const AskedExport> asked) {
  return {.recomputes = recomputes_of(target),
          .refuses =
              [&target, asked](std::string_view key, const PlanChoices& choices) {
                return is_refused(target, key, choices, asked->setting);
              },
          .bucket =
              [&target, asked](const PlanChoices& choices) {
                return own_bucket(target, choices, asked->setting);
              },
          .layers =
              [&target, asked](const PlanChoices& choices) {
                return own_layers(target, choices, asked->setting);
              }};
}

}  // namespace meshwright
