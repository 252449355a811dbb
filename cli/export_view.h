#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planner/export/export.h"
#include "simulator/report/report.h"

namespace meshwright {

// Targets, versions and what each cannot carry.
std::string targets_text();
nlohmann::ordered_json targets_json();

// A plan that a target can carry instead of another one, simulated.
struct CarriedInstead {
  std::string choices;  // the short form
  Report report;
};

// Why a plan is not written, with the nearest one that would be.
struct NotCarried {
  const ExportTarget& target;
  std::string choices;
  const Report& report;
  std::vector<Refusal> refusals;
  std::optional<CarriedInstead> instead;
};
std::string not_carried_text(const NotCarried& what);
nlohmann::ordered_json not_carried_json(const NotCarried& what);

// What was written, or would be without a folder.
std::string written_text(const std::vector<ExportedFile>& files, const std::string& folder);
std::string files_text(const std::vector<ExportedFile>& files);
nlohmann::ordered_json written_json(const ExportTarget& target, const std::string& choices,
                                    const Report& report, const std::vector<ExportedFile>& files);

}  // namespace meshwright
