#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "costmodel/profile/profile.h"
#include "executor/benchmark/benchmark.h"

namespace meshwright {

// What `benchmark` prints at its end: what was stored, what was too noisy, and what the machine is.
std::string benchmark_text(const BenchmarkResult& result, const Profile& profile,
                           const Provenance& machine);
nlohmann::ordered_json benchmark_json(const BenchmarkResult& result, const Profile& profile,
                                      const Provenance& machine);

// A line on standard error that is written over on a terminal, and every ten seconds otherwise;
// nothing in the first two seconds.
class ProgressBar {
 public:
  explicit ProgressBar(bool wanted);
  void show(const BenchmarkProgress& progress);
  void end();

 private:
  bool wanted_, terminal_, shown_ = false;
  Seconds next_ = 2.0_s;
};

}  // namespace meshwright
