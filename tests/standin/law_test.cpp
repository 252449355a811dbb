#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <iostream>

#include "executor/cuda_loader.h"
#include "executor/environment_error.h"
#include "tests/laws/law_case.h"
#include "tests/laws/training.h"
#include "tests/standin/standin.h"
#include "tests/test_scale.h"

// Level E: the GPU back end trains on the stand-in. The environment chooses others than the usual
// plans, as for the law on processors: MESHWRIGHT_LAW_PLANS, MESHWRIGHT_LAW_SEED and
// MESHWRIGHT_LAW_CASE; MESHWRIGHT_STANDIN_SEED chooses another order of streams.
namespace meshwright::standin {
namespace {

constexpr double kMostError = 1e-10;
constexpr int kDevices = 16;  // as many as the law has
constexpr auto kRefused = "refused";

Seconds run_clock() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return Seconds(std::chrono::duration<double>(now).count());
}

DeviceMaker gpus(std::size_t devices) {
  const std::vector<std::filesystem::path> folders = {MESHWRIGHT_STANDIN_FOLDER};
  std::vector<DeviceId> all;
  for (std::size_t i = 0; i < devices; ++i) all.push_back(DeviceId(i));
  return cuda_devices(folders, MESHWRIGHT_VERSION, all, run_clock);
}

std::string problem_of(const LawCase& law_case, std::uint32_t seed, double& worst) {
  const Model model = model_of(law_case);
  const Plan plan = plan_of(law_case, model).value();
  restart({.devices = kDevices, .seed = seed, .guarded = seed % 10 == 0});
  try {
    const double error = error_of(law_case, gpus(devices_of(plan).size()));
    worst = std::max(worst, error);
    if (error > kMostError) return "error " + std::to_string(error);
  } catch (const EnvironmentError& refused) {
    // What GPUs do not run yet is said in words.
    const std::string words = refused.what();
    return words.find("on GPUs yet") != std::string::npos ? kRefused : words;
  } catch (const std::exception& error) {
    const auto wrong = faults();
    return error.what() + (wrong.empty() ? "" : "; the stand-in: " + wrong.front());
  }
  const auto wrong = faults();
  return wrong.empty() ? "" : wrong.front();
}

// False: it is refused.
bool check_case(const LawCase& law_case, std::uint32_t seed, double& worst) {
  const std::string problem = problem_of(law_case, seed, worst);
  if (problem.empty() || problem == kRefused) return problem.empty();
  std::cout << "FAILED: " << problem << "\n  " << choices_of(law_case)
            << "\n  MESHWRIGHT_STANDIN_SEED=" << seed
            << " MESHWRIGHT_LAW_CASE=" << to_text(law_case) << " standin_test 'random plans*'\n";
  CHECK(problem == "");
  return true;
}

}  // namespace

TEST_CASE("random plans give one processor's losses, gradients and weights on GPUs") {
  const auto order = static_cast<std::uint32_t>(number_from("MESHWRIGHT_STANDIN_SEED", 1));
  double worst = 0;
  if (const char* text = std::getenv("MESHWRIGHT_LAW_CASE")) {
    CHECK(check_case(parse_law_case(text), order, worst));
    return;
  }
  const std::int64_t first = number_from("MESHWRIGHT_LAW_SEED", 5000);
  const std::int64_t count = number_from("MESHWRIGHT_LAW_PLANS", cases(20, 200));
  std::int64_t tried = 0, refused = 0;
  for (std::int64_t seed = first; tried < count; ++seed) {
    const LawCase law_case = random_law_case(static_cast<std::uint32_t>(seed));
    const Model model = model_of(law_case);
    const auto plan = plan_of(law_case, model);
    if (!plan) continue;
    // `run --device cuda` refuses virtual stages: a device would receive into memory that it still
    // sends from, and so would its peer.
    if (plan->chunks.size() > plan->slots.size()) {
      ++refused;
      continue;
    }
    check_case(law_case, order + static_cast<std::uint32_t>(seed), worst) ? ++tried : ++refused;
  }
  std::cout << count << " plans on GPUs, largest error " << worst << "; " << refused
            << " others are refused\n";
  CHECK(refused < count);
}

namespace {

struct SmallRun {
  Model model = small_gpt();
  Plan plan;
  explicit SmallRun(const std::string& choices) : plan(small_plan(choices, model, 4, 8)) {}

  Trained on_processors() const { return train(model, plan, 2); }
  Trained on_gpus(Options options) const {
    options.guarded = false;
    restart(options);
    return train(
        model, plan, 2, usual_settings(), [](std::vector<Program>&) {},
        gpus(devices_of(plan).size()));
  }
};

// Whether the numbers are others, or there is an error or a fault.
bool is_noticed(const SmallRun& run, const Trained& expected, const Options& options) {
  try {
    const Trained found = run.on_gpus(options);
    return largest_error(expected.losses, found.losses) > kMostError ||
           largest_error(expected.weights, found.weights) > kMostError || !faults().empty();
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace

TEST_CASE("an event's wait that is left out shows in some order of streams") {
  // One device, so that the seed decides everything: lanes to and from the host beside computing.
  const SmallRun run("offload=activations+optimizer");
  const Trained expected = run.on_processors();
  CHECK(!is_noticed(run, expected, {.devices = 1, .seed = 3}));
  const std::int64_t waits = calls_of("cudaStreamWaitEvent");
  REQUIRE(waits > 10);
  int noticed = 0, tried = 0;
  for (std::int64_t wait = 1; wait <= waits; wait += waits / 8, ++tried) {
    bool found = false;
    for (std::uint32_t seed = 1; seed <= 3 && !found; ++seed) {
      found = is_noticed(run, expected, {.devices = 1, .seed = seed, .ignored_wait = wait});
    }
    noticed += found;
  }
  // Some are implied by others.
  std::cout << noticed << " of " << tried << " waits that were left out were noticed\n";
  CHECK(noticed > 0);
}

TEST_CASE("a call that fails ends training on GPUs with an error, not with a hang") {
  const SmallRun run("dp=2,zero=1");
  const Trained expected = run.on_processors();
  struct Case {
    const char* function;
    std::vector<std::int64_t> calls;
  };
  const std::vector<Case> failures = {
      {"cudaMalloc", {1, 6}},        {"cudaLaunchKernel", {1, 40, 400}},
      {"kernel", {1, 100}},          {"cublasLtMatmul", {1, 30}},
      {"ncclAllReduce", {1, 9}},     {"ncclCommInitRankConfig", {1, 3}},
      {"cudaEventRecord", {5, 200}}, {"cudaStreamCreateWithFlags", {2}},
      {"cudaMemcpyAsync", {3, 20}},
  };
  for (const auto& [function, calls] : failures) {
    for (const std::int64_t call : calls) {
      if (!is_full() && call != calls.front()) continue;
      CAPTURE(function, call);
      const Options options{
          .devices = 4, .seed = 2, .patience_s = 10, .failure = Failure{function, call}};
      std::string message;
      try {
        run.on_gpus(options);
      } catch (const std::exception& error) {
        message = error.what();
      }
      // Before the first step there is no task to name.
      CHECK_THAT(message, Catch::Contains("device ") || Catch::StartsWith("CUDA: "));
    }
  }
  CHECK(!is_noticed(run, expected, {.devices = 4, .seed = 2}));
}

TEST_CASE("GPUs use the memory that was planned, beside what libraries need") {
  const SmallRun run("dp=2,zero=1");
  run.on_gpus({.devices = 2});
  for (const int device : {0, 1}) {
    CHECK(used_bytes(device) == 0);
    CHECK(peak_bytes(device) > 0);
  }
}

}  // namespace meshwright::standin
