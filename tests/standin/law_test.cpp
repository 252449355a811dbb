#include <catch2/catch.hpp>
#include <iostream>
#include <map>

#include "executor/environment_error.h"
#include "tests/laws/law_case.h"
#include "tests/standin/small_run.h"
#include "tests/test_scale.h"

// Level E: the GPU back end trains on the stand-in. The environment chooses others than the usual
// plans, as for the law on processors: MESHWRIGHT_LAW_PLANS, MESHWRIGHT_LAW_SEED and
// MESHWRIGHT_LAW_CASE; MESHWRIGHT_STANDIN_SEED chooses another order of streams.
namespace meshwright::standin {
namespace {

constexpr int kDevices = 16;  // as many as the law has
constexpr auto kRefused = "refused";

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
    return words.find("--device cpu has all of them") != std::string::npos ? kRefused : words;
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
    check_case(law_case, order + static_cast<std::uint32_t>(seed), worst) ? ++tried : ++refused;
  }
  std::cout << count << " plans on GPUs, largest error " << worst << "; " << refused
            << " others are refused\n";
  CHECK(refused < count);
}

namespace {

// What a run says that has a call fail. Empty: it does not notice.
std::string message_of_failure(const SmallRun& run, const Failure& failure) {
  try {
    run.on_gpus({.devices = 4, .seed = 2, .patience_s = 10, .failure = failure});
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a call that fails ends training on GPUs with an error, not with a hang") {
  const SmallRun run("dp=2,pp=2,zero=1");
  CHECK(!is_noticed(run, run.on_processors(), {.devices = 4, .seed = 2}));
  std::map<std::string, std::int64_t> counts;
  for (const char* function :
       {"cudaMalloc", "cudaLaunchKernel", "kernel", "cublasLtMatmul", "ncclAllReduce", "ncclSend",
        "ncclRecv", "ncclCommInitRankConfig", "cudaEventCreate", "cudaEventRecord",
        "cudaStreamWaitEvent", "cudaStreamCreateWithFlags", "cudaMemcpyAsync", "cudaMemsetAsync"}) {
    counts[function] = calls_of(function);
    REQUIRE(counts[function] > 0);
  }
  int number = 0;
  for (const auto& [function, count] : counts) {
    // The last call may be one that nobody needs any more.
    const std::int64_t calls[] = {1, 1 + count / 2, 1 + count * 3 / 4};
    for (std::size_t i = 0; i < 3; ++i) {
      if (!is_full() && static_cast<std::size_t>(number) % 3 != i) continue;
      CAPTURE(function, calls[i], count);
      const std::string message = message_of_failure(run, {function, calls[i]});
      CHECK_THAT(message, Catch::Contains("device "));
      // Before the first step there is no task to name, and at its end none is at hand.
      CHECK_THAT(message, Catch::Contains(", task ") || Catch::Contains("before the first step") ||
                              Catch::Contains("at its end") || Catch::StartsWith("device ") ||
                              Catch::StartsWith("out of memory: device "));
    }
    ++number;
  }
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
