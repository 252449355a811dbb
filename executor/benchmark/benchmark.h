#pragma once

#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "costmodel/profile/profile.h"
#include "executor/benchmark/items.h"
#include "executor/benchmark/measure.h"
#include "executor/benchmark/target.h"

namespace meshwright {

struct BenchmarkSettings {
  MeasureSettings measure;
  std::optional<Seconds> budget;  // none: until everything is measured
  bool again = false;             // also what is in the profile already
  Bytes large_message = 4_MiB;    // what a link is probed with: its bandwidth must show
  Bytes large_copy = 64_MiB;      // more than caches hold
  std::string date;               // of the rows
};

struct NoisyReading {
  std::string what;
  Reading reading;
};

struct BenchmarkResult {
  std::int64_t measured = 0;        // stored
  std::int64_t known = 0;           // in the profile before, not measured again
  std::int64_t left = 0;            // for want of time, or stopped
  std::vector<NoisyReading> noisy;  // not stored
  bool complete() const { return left == 0 && noisy.empty(); }
};

struct BenchmarkProgress {
  std::size_t done = 0, all = 0;
  std::string current;
  Seconds elapsed;
};

// Measures the items in their order. What is trusted goes to `store` at once; what it has taken is
// safe when the benchmark is stopped or dies. Readings that are not trusted are not stored; when
// everything else is done they are taken once more, with twice the time.
BenchmarkResult run_benchmark(BenchmarkTarget& target, std::span<const BenchmarkItem> items,
                              const BenchmarkSettings& settings, const Profile& known,
                              const std::function<void(const Profile&)>& store,
                              const std::function<Seconds()>& clock, const std::stop_token& stop,
                              const std::function<void(const BenchmarkProgress&)>& progress = {});

}  // namespace meshwright
