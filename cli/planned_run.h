#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/plan_option.h"
#include "cli/session.h"
#include "costmodel/cluster/cluster.h"
#include "executor/cuda/cuda_library.h"
#include "executor/run_identity.h"
#include "executor/step_settings.h"
#include "executor/train.h"
#include "simulator/plan/plan.h"
#include "simulator/program/program.h"
#include "simulator/report/report.h"

namespace meshwright {

struct RunCommandOptions {
  PlanOptions plan;
  std::int64_t steps = 10;
  std::uint64_t seed = 0;
  double learning_rate = 1e-3, clip = 1.0;
  std::optional<double> loss_scale;
  std::optional<std::int64_t> loss_scale_steps;
  std::optional<std::string> profile, metrics, trace;
  std::optional<std::int64_t> processes;
  double lost_after = 15, stuck_after = 600;
  bool dry_run = false;
  std::string device = "cpu";  // or cuda
  bool launched = false;       // as one of several processes, by another program
  CudaRunOptions cuda = {};
};

// A plan that can be run, with what it is for.
class PlannedRun {
 public:
  // Throws what speaks against it.
  PlannedRun(const RunCommandOptions& options, const Session& session);
  PlannedRun(const PlannedRun&) = delete;
  PlannedRun& operator=(const PlannedRun&) = delete;

  const Cluster& cluster() const { return cluster_; }
  const Plan& plan() const { return plan_; }
  const Model& model() const { return model_; }
  const Setting& setting() const { return *setting_; }
  const RunIdentity& identity() const { return identity_; }
  std::int64_t vocabulary() const { return vocabulary_; }  // below which random tokens are drawn

 private:
  Cluster cluster_;
  Model model_;
  std::optional<Setting> setting_;
  Plan plan_;
  RunIdentity identity_;
  std::int64_t vocabulary_ = 0;
};

// The programs of all devices, checked, and what they should take.
struct PreparedRun {
  std::vector<Program> programs;
  Overheads overheads;
  Report predicted;
};
PreparedRun prepare_run(const PlannedRun& run);

// What run_threads and processes train with.
StepSettings settings_of(const RunCommandOptions& options);
RunOptions run_options_of(const RunCommandOptions& options, const PlannedRun& run);

}  // namespace meshwright
