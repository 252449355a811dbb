#pragma once

#include <chrono>
#include <filesystem>

#include "executor/cuda_loader.h"
#include "tests/laws/training.h"
#include "tests/standin/standin.h"

// Training on GPUs that the stand-in stands in for.
namespace meshwright::standin {

constexpr double kMostError = 1e-10;

inline Seconds run_clock() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return Seconds(std::chrono::duration<double>(now).count());
}

inline DeviceMaker gpus(std::size_t devices, CudaRunOptions options = {}) {
  const std::vector<std::filesystem::path> folders = {MESHWRIGHT_STANDIN_FOLDER};
  std::vector<DeviceId> all;
  for (std::size_t i = 0; i < devices; ++i) all.push_back(DeviceId(i));
  return cuda_devices(folders, MESHWRIGHT_VERSION, all, run_clock, options);
}

struct SmallRun {
  Model model = small_gpt();
  Plan plan;
  std::int64_t steps = 2;
  CudaRunOptions run_options = {};
  explicit SmallRun(const std::string& choices) : plan(small_plan(choices, model, 4, 8)) {}

  Trained on_processors() const { return train(model, plan, steps); }
  Trained on_gpus(Options options) const {
    options.guarded = false;
    restart(options);
    return train(
        model, plan, steps, usual_settings(), [](std::vector<Program>&) {},
        gpus(devices_of(plan).size(), run_options));
  }
};

// Whether the numbers are others, or there is an error or a fault.
inline bool is_noticed(const SmallRun& run, const Trained& expected, const Options& options) {
  try {
    const Trained found = run.on_gpus(options);
    return largest_error(expected.losses, found.losses) > kMostError ||
           largest_error(expected.weights, found.weights) > kMostError || !faults().empty();
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace meshwright::standin
