#include "cli/selftest_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/text_table.h"

namespace meshwright {
namespace {

std::vector<std::string> parts_of(const SelfTestReport& report) {
  std::vector<std::string> parts;
  for (const SelfCheck& check : report.checks) {
    if (std::ranges::find(parts, check.part) == parts.end()) parts.push_back(check.part);
  }
  return parts;
}

std::string what_went_wrong(const SelfCheck& check) {
  if (!check.problem.empty()) return check.problem;
  return fmt::format("error {:.2g}, at most {:.2g} is rounding", check.error, check.limit);
}

}  // namespace

std::size_t SelfTestReport::failed() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(checks, [](const SelfCheck& check) { return !check.passed(); }));
}

std::string self_test_text(const SelfTestReport& report) {
  std::string text =
      fmt::format("{} ({}), {}\n", report.provenance.machine,
                  report.devices == 1 ? "1 device" : fmt::format("{} devices", report.devices),
                  report.provenance.software);
  std::vector<std::vector<std::string>> rows;
  for (const std::string& part : parts_of(report)) {
    std::size_t all = 0, passed = 0;
    double closest = 0;  // to its limit
    for (const SelfCheck& check : report.checks) {
      if (check.part != part) continue;
      ++all;
      passed += check.passed();
      if (check.passed() && check.limit > 0) closest = std::max(closest, check.error / check.limit);
    }
    rows.push_back({part, fmt::format("{} of {} passed", passed, all),
                    closest > 0 ? fmt::format("largest error {:.2g} of its limit", closest) : ""});
  }
  text += table_text(rows, 2);
  for (const SelfCheck& check : report.checks) {
    if (check.passed()) continue;
    text += fmt::format("failed: {}: {}: {}\n", check.part, check.name, what_went_wrong(check));
  }
  return text;
}

nlohmann::ordered_json self_test_json(const SelfTestReport& report) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  for (const SelfCheck& check : report.checks) {
    nlohmann::ordered_json row = {{"part", check.part},
                                  {"name", check.name},
                                  {"passed", check.passed()},
                                  {"limit", check.limit}};
    // What is infinite cannot be written.
    if (std::isfinite(check.error)) row["error"] = check.error;
    if (!check.passed()) row["problem"] = what_went_wrong(check);
    checks.push_back(std::move(row));
  }
  return {{"device", report.device},
          {"devices", report.devices},
          {"machine", report.provenance.machine},
          {"software", report.provenance.software},
          {"date", report.date},
          {"passed", report.checks.size() - report.failed()},
          {"failed", report.failed()},
          {"checks", std::move(checks)}};
}

}  // namespace meshwright
