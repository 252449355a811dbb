#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "costmodel/profile/profile.h"
#include "executor/selftest/self_check.h"

namespace meshwright {

// What was tried, where, and what came of it.
struct SelfTestReport {
  std::string device;  // as asked for
  std::int64_t devices = 1;
  Provenance provenance;
  std::string date;
  std::vector<SelfCheck> checks;

  std::size_t failed() const;
};

// A line for each part, and one for everything that failed.
std::string self_test_text(const SelfTestReport& report);
nlohmann::ordered_json self_test_json(const SelfTestReport& report);

}  // namespace meshwright
