#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

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

TEST_CASE("selftest of GPUs passes on the stand-in") {
  const int devices = is_full() ? 4 : 1;
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
  CHECK(nlohmann::json::parse(done.out).at("failed") == 1);
}

TEST_CASE("training by `run --device cuda` gives the losses of processors") {
  const std::string command =
      "run --model data/selftest/llama.json --plan dp=2,tp=2,zero=1 --precision fp64 "
      "--global-batch 8 --seq 16 --steps 3 --json";
  const ProgramOutput processors = run_beside_standin("devices=4", command);
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

TEST_CASE("virtual stages are refused on GPUs in one line") {
  const ProgramOutput once =
      run_beside_standin("devices=2",
                         "run --model data/selftest/llama.json --plan pp=2,virtual_stages=1 "
                         "--global-batch 8 --seq 16 --steps 1 --device cuda");
  CHECK(once.exit_code == 0);
  const ProgramOutput twice =
      run_beside_standin("devices=2",
                         "run --model gpt2-tiny --plan pp=2,virtual_stages=2,microbatch=2 "
                         "--global-batch 8 --seq 16 --steps 1 --device cuda");
  CHECK(twice.exit_code == 2);
  CHECK_THAT(twice.err, Catch::Contains("virtual stages do not run with --device cuda yet"));
}

}  // namespace meshwright::standin
