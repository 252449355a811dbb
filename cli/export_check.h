#pragma once

#include "cli/export_option.h"
#include "cli/export_view.h"
#include "cli/setting_option.h"

namespace meshwright {

// The choices of what is asked for: those of a short form, or those that stand for a file's plan.
// None: no short form says that plan.
std::optional<ShortForm> form_of(const AskedPlan& asked, const AskedSetting& setting);

// What a target cannot be told ends the program: prints every such choice and the nearest plan that
// can be told, simulated.
[[noreturn]] void end_not_carried(const ExportTarget& target, const PlanToExport& plan,
                                  std::vector<Refusal> refusals, const ExportSetting& setting,
                                  const AskedSetting& asked, const Session& session);

// Of a plan that no short form says, which only its own file does.
std::vector<Refusal> unsaid_plan(const std::string& file);

}  // namespace meshwright
