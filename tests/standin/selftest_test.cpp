#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/bad_files.h"
#include "tests/cli/run_program.h"
#include "tests/test_scale.h"

// The program finds the stand-in as it finds GPUs: beside itself.
namespace meshwright::standin {
namespace {

ProgramOutput run_beside_standin(const std::string& standin, const std::string& arguments) {
  std::filesystem::remove(MESHWRIGHT_PROGRAM);
  std::filesystem::create_hard_link(MESHWRIGHT_BUILT_PROGRAM, MESHWRIGHT_PROGRAM);
  return run_program(arguments, "MESHWRIGHT_STANDIN='" + standin + "' ");
}

}  // namespace

// What fails in the next case is one of all, so that the usual run tries all others there.
TEST_CASE("selftest of GPUs passes on the stand-in") {
  if (!is_full()) return;
  constexpr int devices = 4;
  const ProgramOutput done = run_beside_standin(
      fmt::format("devices={} seed=11 guarded=0", devices), "selftest --device cuda --json");
  CAPTURE(done.out, done.err);
  REQUIRE(done.exit_code == 0);
  const auto report = nlohmann::json::parse(done.out);
  CHECK(report.at("device") == "cuda");
  CHECK(report.at("devices") == devices);
  CHECK(report.at("failed") == 0);
  CHECK(report.at("passed") > 100);
}

TEST_CASE("selftest of GPUs reports a kernel that fails, and the exit code is a device's") {
  const ProgramOutput done = run_beside_standin("devices=1 guarded=0 fail=cudaLaunchKernel:20",
                                                "selftest --device cuda --devices 1 --json");
  CAPTURE(done.err);
  CHECK(done.exit_code == 40);
  const auto report = nlohmann::json::parse(done.out);
  CHECK(report.at("failed") == 1);
  CHECK(report.at("passed") > 100);
}

TEST_CASE("training by `run --device cuda` gives the losses of processors") {
  for (const char* plan :
       {"--model data/selftest/llama.json --plan dp=2,tp=2,zero=1",
        "--model gpt2-tiny --plan pp=2,schedule=interleaved,virtual_stages=2,microbatch=2"}) {
    const std::string command =
        fmt::format("run {} --precision fp64 --global-batch 8 --seq 16 --steps 3 --json", plan);
    const ProgramOutput processors = run_beside_standin("devices=4", command);
    CAPTURE(plan, processors.err);
    REQUIRE(processors.exit_code == 0);
    const ProgramOutput gpus = run_beside_standin("devices=4 seed=9", command + " --device cuda");
    CAPTURE(gpus.err);
    REQUIRE(gpus.exit_code == 0);
    const auto expected = nlohmann::json::parse(processors.out).at("losses");
    const auto found = nlohmann::json::parse(gpus.out).at("losses");
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i].get<double>() == Approx(expected[i].get<double>()).epsilon(1e-10));
    }
  }
}

TEST_CASE("`run --device cuda` traces every task of a step, by graphs too") {
  const std::string command =
      "run --model gpt2-tiny --plan dp=2,zero=1 --precision fp64 --global-batch 4 --seq 16 --steps "
      "3 "
      "--json --device cuda";
  std::vector<std::size_t> counts;
  for (const char* graphs : {"", " --cuda-graphs"}) {
    CAPTURE(graphs);
    const TemporaryFolder folder;
    const auto file = folder.path() / "trace.json";
    const ProgramOutput run = run_beside_standin("devices=2 seed=9 guarded=0",
                                                 command + graphs + " --trace " + file.string());
    CAPTURE(run.err);
    REQUIRE(run.exit_code == 0);
    const auto result = nlohmann::json::parse(run.out);
    CHECK(result.at("beside_bytes") > 0);
    CHECK(result.at("measured").at("step_s") > 0);
    std::ifstream stream(file);
    const auto trace = nlohmann::json::parse(stream);
    std::size_t tasks = 0;
    for (const auto& event : trace.at("traceEvents")) {
      if (event.at("ph") != "X") continue;
      ++tasks;
      CHECK(event.at("dur") >= 0);
    }
    counts.push_back(tasks);
  }
  CHECK(counts[0] > 100);
  CHECK(counts[0] == counts[1]);
}

}  // namespace meshwright::standin
