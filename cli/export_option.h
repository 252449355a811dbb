#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/setting_option.h"
#include "planner/export/export.h"
#include "planner/search/search.h"

namespace meshwright {

// The target that is named. Throws UsageError that lists those there are.
const ExportTarget& target_from_option(const std::string& option, const std::string& name,
                                       const std::optional<std::string>& version = {});

// A setting for exports, with what it refers to.
struct AskedExport {
  AskedExport(const SettingOptions& options, const AskedSetting& asked, const BatchChoice& batch,
              const Session& session);
  AskedExport(const AskedExport&) = delete;  // `setting` refers to `decoder`
  AskedExport& operator=(const AskedExport&) = delete;

  const std::optional<DecoderFile> decoder;
  const ExportSetting setting;
};

// The short form with what the target does where it says nothing; a plan file as it is named.
std::string plan_for_target(const ExportTarget& target, const SettingOptions& options,
                            const AskedSetting& asked, const Session& session);

// What a search for the target chooses among. `asked` is kept by what comes back.
TargetSpace target_space(const ExportTarget& target, std::shared_ptr<const AskedExport> asked);

}  // namespace meshwright
