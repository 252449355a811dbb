#include "cli/selftest_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/planned_run.h"
#include "costmodel/base/json_input.h"
#include "executor/data_source.h"
#include "executor/initial_weights.h"
#include "simulator/program/arena.h"

namespace meshwright {
namespace {

// What the losses were made with: `run` on one processor in fp64.
struct StoredTraining {
  std::int64_t global_batch = 0, sequence = 0;
  std::vector<std::pair<std::string, std::vector<double>>> losses;  // by model
};

StoredTraining read_stored(const std::filesystem::path& file) {
  const JsonInput input = JsonInput::read(file);
  StoredTraining stored{.global_batch = input.at("global_batch").integer(1, 1 << 20),
                        .sequence = input.at("seq").integer(1, 1 << 20)};
  for (const auto& [model, losses] : input.at("losses").fields()) {
    stored.losses.emplace_back(model, losses.list<double>());
  }
  input.reject_unknown_fields();
  return stored;
}

std::vector<std::string> plans_for(std::int64_t devices) {
  std::vector<std::string> plans = {"dp=1"};
  if (devices >= 2) {
    plans.insert(plans.end(), {"dp=2,zero=3", "tp=2,sequence_parallel=true", "pp=2,microbatch=2",
                               "cp=2,context=ring", "dp=1,offload=optimizer"});
  }
  if (devices >= 4) plans.insert(plans.end(), {"dp=2,tp=2,zero=1", "tp=2,pp=2,microbatch=2"});
  return plans;
}

// Of losses, as the law over random plans has it for fp32.
double limit_of(Precision precision) {
  if (precision == Precision::FP64) return 1e-10;
  return precision == Precision::FP32 ? 1e-5 : 1e-2;
}

double largest_error(const std::vector<double>& expected, const std::vector<StepResult>& found) {
  double most = expected.size() == found.size() ? 0 : HUGE_VAL;
  for (std::size_t i = 0; i < std::min(expected.size(), found.size()); ++i) {
    const double error = std::abs(found[i].loss - expected[i]) / std::abs(expected[i]);
    most = std::max(most, std::isnan(error) ? HUGE_VAL : error);
  }
  return most;
}

SelfCheck memory_check(const std::string& name, const std::vector<Program>& programs,
                       const RunResult& result) {
  SelfCheck check{.part = "memory", .name = name};
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const BesideMemory& beside = result.beside[i];
    const Bytes planned = lay_out_arena(programs[i]).peak + beside.planned;
    const Bytes used = result.peaks[i] + beside.used;
    if (planned == used) continue;
    check.problem =
        fmt::format("device {}: {} planned, {} used", i, to_text(planned), to_text(used));
  }
  return check;
}

class TrainingChecks {
 public:
  TrainingChecks(const SelfTestDevices& devices, const Session& session,
                 const std::function<void(const SelfCheck&)>& tried)
      : devices_(devices),
        session_(session),
        tried_(tried),
        stored_(read_stored(session.data / "selftest" / "losses.json")) {}

  std::vector<SelfCheck> run() {
    for (const auto& [model, losses] : stored_.losses) {
      for (const Precision precision : devices_.precisions) {
        for (const std::string& plan : plans_for(devices_.count))
          train(model, losses, precision, plan);
      }
      if (devices_.kind == "cuda") train_otherwise(model, losses);
    }
    return std::move(checks_);
  }

 private:
  // Lanes that are held up at random give the same losses, and so do steps as graphs.
  void train_otherwise(const std::string& model, const std::vector<double>& losses) {
    const Precision precision = devices_.precisions.front();
    const auto plans = plans_for(devices_.count);
    for (const std::uint32_t seed : {1u, 2u}) {
      train(model, losses, precision, plans.back(), {.delays = seed});
    }
    for (const std::string& plan : plans) train(model, losses, precision, plan, {.graphs = true});
  }

  void train(const std::string& model, const std::vector<double>& losses, Precision precision,
             const std::string& plan, const CudaRunOptions& cuda = {}) {
    RunCommandOptions options;
    options.plan.model = (session_.data / "selftest" / (model + ".json")).string();
    options.plan.plan = plan;
    options.plan.global_batch = stored_.global_batch;
    options.plan.sequence = stored_.sequence;
    options.plan.precision = std::string(to_text(precision));
    options.device = devices_.kind;
    options.steps = static_cast<std::int64_t>(losses.size());
    options.cuda = cuda;
    const std::string name =
        fmt::format("{}, {}, {}{}{}", model, plan, to_text(precision),
                    cuda.delays ? fmt::format(", held up by seed {}", *cuda.delays) : "",
                    cuda.graphs ? ", by graphs" : "");
    SelfCheck check{.part = "training", .name = name, .limit = limit_of(precision)};
    std::optional<SelfCheck> memory;
    try {
      const PlannedRun run(options, session_);
      const PreparedRun prepared = prepare_run(run);
      const RunResult result =
          run_threads(prepared.programs, settings_of(options), run_options_of(options, run),
                      random_weights(options.seed), RandomTokens(options.seed, run.vocabulary()));
      check.error = largest_error(losses, result.steps);
      memory = memory_check(name, prepared.programs, result);
    } catch (const std::exception& error) {
      check.problem = error.what();
    }
    add(check);
    if (memory) add(*memory);
  }
  void add(const SelfCheck& check) {
    checks_.push_back(check);
    tried_(check);
  }

  const SelfTestDevices& devices_;
  const Session& session_;
  const std::function<void(const SelfCheck&)>& tried_;
  StoredTraining stored_;
  std::vector<SelfCheck> checks_;
};

}  // namespace

std::vector<SelfCheck> check_training(const SelfTestDevices& devices, const Session& session,
                                      const std::function<void(const SelfCheck&)>& tried) {
  return TrainingChecks(devices, session, tried).run();
}

}  // namespace meshwright
