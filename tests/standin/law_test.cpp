#include <catch2/catch.hpp>
#include <iostream>
#include <map>

#include "executor/environment_error.h"
#include "executor/transfer_space.h"
#include "simulator/program/arena.h"
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

std::string problem_of(const LawCase& law_case, std::uint32_t seed, bool graphs, double& worst) {
  const Model model = model_of(law_case);
  const Plan plan = plan_of(law_case, model).value();
  restart({.devices = kDevices, .seed = seed, .guarded = seed % 10 == 0});
  try {
    const double error = error_of(law_case, gpus(devices_of(plan).size(), {.graphs = graphs}));
    worst = std::max(worst, error);
    if (error > kMostError) return "error " + std::to_string(error);
  } catch (const EnvironmentError& refused) {
    // What GPUs do not run yet is said in words.
    const std::string words = refused.what();
    const bool said = words.find("--device cpu has all of them") != std::string::npos ||
                      (graphs && words.find("without --cuda-graphs") != std::string::npos);
    if (said && !graphs) std::cout << "refused: " << words << "\n";
    return said ? kRefused : words;
  } catch (const std::exception& error) {
    const auto wrong = faults();
    return error.what() + (wrong.empty() ? "" : "; the stand-in: " + wrong.front());
  }
  const auto wrong = faults();
  return wrong.empty() ? "" : wrong.front();
}

// False: it is refused.
bool check_case(const LawCase& law_case, std::uint32_t seed, bool graphs, double& worst) {
  const std::string problem = problem_of(law_case, seed, graphs, worst);
  if (problem.empty() || problem == kRefused) return problem.empty();
  std::cout << "FAILED: " << problem << "\n  " << choices_of(law_case)
            << "\n  MESHWRIGHT_STANDIN_SEED=" << seed
            << " MESHWRIGHT_LAW_CASE=" << to_text(law_case) << " standin_test '"
            << (graphs ? "captured" : "random") << " plans*'\n";
  CHECK(problem == "");
  return true;
}

void check_random_plans(bool graphs, int usual_count, int usual_first) {
  const auto order = static_cast<std::uint32_t>(number_from("MESHWRIGHT_STANDIN_SEED", 1));
  double worst = 0;
  if (const char* text = std::getenv("MESHWRIGHT_LAW_CASE")) {
    CHECK(check_case(parse_law_case(text), order, graphs, worst));
    return;
  }
  const std::int64_t first = number_from("MESHWRIGHT_LAW_SEED", usual_first);
  const std::int64_t count = number_from("MESHWRIGHT_LAW_PLANS", usual_count);
  std::int64_t tried = 0, refused = 0;
  for (std::int64_t seed = first; tried < count; ++seed) {
    const LawCase law_case = random_law_case(static_cast<std::uint32_t>(seed));
    const Model model = model_of(law_case);
    const auto plan = plan_of(law_case, model);
    if (!plan) continue;
    const auto stream_seed = order + static_cast<std::uint32_t>(seed);
    check_case(law_case, stream_seed, graphs, worst) ? ++tried : ++refused;
  }
  std::cout << count << " plans on GPUs" << (graphs ? " by graphs" : "") << ", largest error "
            << worst << "; " << refused << " others are refused\n";
  CHECK(refused < count);
}

}  // namespace

TEST_CASE("random plans give one processor's losses, gradients and weights on GPUs", "[plans]") {
  check_random_plans(false, cases(20, 200), 5002);
}

// Of three steps the first runs as usual, the second is captured and the third repeats it.
TEST_CASE("captured plans give one processor's losses, gradients and weights on GPUs", "[plans]") {
  check_random_plans(true, cases(4, 100), 9005);
}

namespace {

// What a run says that has a call fail. Empty: it does not notice.
std::string message_of_failure(const SmallRun& run, const Failure& failure) {
  try {
    run.on_gpus({.devices = 4, .seed = 2, .patience_s = 4, .failure = failure});
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
      // The cause, and not what came of it on a device that waited.
      const std::string name = function;
      if (name == "cudaMalloc" || name.starts_with("nccl")) {
        CHECK_THAT(message, Catch::Contains(name));
      }
      // Before the first step there is no task to name, and at its end none is at hand.
      CHECK_THAT(message, Catch::Contains(", task ") || Catch::Contains("before the first step") ||
                              Catch::Contains("at its end") || Catch::StartsWith("device ") ||
                              Catch::StartsWith("out of memory: device "));
    }
    ++number;
  }
}

TEST_CASE("GPUs use the memory that was planned, all of it known before the first step") {
  for (const char* choices :
       {"pp=2,schedule=interleaved,virtual_stages=2,microbatch=1", "cp=2,context=ring",
        "dp=2,zero=1", "pp=2,microbatch=1", "dp=2,tp=2,zero=3"}) {
    if (!is_full() && choices[0] == 'd') continue;
    for (const bool graphs : {false, true}) {
      CAPTURE(choices, graphs);
      SmallRun run(choices);
      run.steps = 3;
      run.run_options.graphs = graphs;
      const auto programs = lower_all(run.model, run.plan);
      const auto spaces = transfer_spaces(programs);
      const Trained trained = run.on_gpus({.devices = 4, .seed = 5});
      for (std::size_t d = 0; d < programs.size(); ++d) {
        const auto& [planned, used] = trained.beside[d];
        CHECK(planned == used);
        CHECK(planned > spaces[d].total());
        CHECK(Bytes(static_cast<std::int64_t>(peak_bytes(static_cast<int>(d)))) ==
              lay_out_arena(programs[d]).peak + planned);
        CHECK(used_bytes(static_cast<int>(d)) == 0);
      }
    }
  }
}

}  // namespace meshwright::standin
