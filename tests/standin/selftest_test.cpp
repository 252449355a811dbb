#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

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

namespace {

using Json = nlohmann::json;

// Two devices that multiply at 1 GFLOP/s; an optimizer takes 100 s whatever the size.
const std::string kTwoGpus = R"({"format": "meshwright-profile", "version": 1,
"provenances": [{"machine": "box", "software": "", "source": "by hand"}],
"devices": {"columns": ["provenance","date","repetitions","spread","device","description","devices","memory_bytes"],
            "rows": [[0,"2026",null,null,"stand-in","",2,1000000000]]},
"links": {"columns": ["provenance","date","repetitions","spread","device","a","b","latency_s","bytes_per_s"],
          "rows": [[0,"2026",null,null,"stand-in",0,1,0.001,1000000]]},
"kernels": {"columns": ["provenance","date","repetitions","spread","device","kind","part","variant","precision","shape","time_s"],
            "rows": [[0,"2026",null,null,"stand-in","matmul","forward","","fp32","1000x1000x1000",2.0],
                     [0,"2026",null,null,"stand-in","add","forward","","fp32","1000000",0.012],
                     [0,"2026",null,null,"stand-in","adamw","step","","fp32","1",100],
                     [0,"2026",null,null,"stand-in","adamw","step","","fp32","1000000000",100]]}})";

struct ProfiledRun {
  Json result;
  std::vector<Json> tasks;  // of the last step, by device, lane and time

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Json& task : tasks) all.push_back(task.at("pid").dump() + task.at("name").dump());
    std::ranges::sort(all);
    return all;
  }
};

double end_of(const Json& task) {
  return task.at("ts").get<double>() + task.at("dur").get<double>();
}

ProfiledRun profiled_run(const std::string& options) {
  const TemporaryFolder folder;
  const auto trace = (folder.path() / "trace.json").string();
  const ProgramOutput run = run_beside_standin(
      "devices=2 seed=9 guarded=0",
      "run --model gpt2-tiny --plan dp=2,zero=1 --global-batch 4 --seq 16 --steps 3 --json "
      "--profile " +
          folder.write("gpus.json", kTwoGpus).string() + " --trace " + trace + options);
  CAPTURE(options, run.err);
  REQUIRE(run.exit_code == 0);
  ProfiledRun found{Json::parse(run.out), {}};
  const Json whole = Json::parse(std::ifstream(trace));
  for (const Json& event : whole.at("traceEvents")) {
    if (event.at("ph") == "X") found.tasks.push_back(event);
  }
  std::ranges::stable_sort(found.tasks, {}, [](const Json& task) {
    return std::tuple(task.at("pid").get<int>(), task.at("tid").get<int>(),
                      task.at("ts").get<double>());
  });
  return found;
}

std::vector<std::string> fields_of(const Json& report) {
  std::vector<std::string> fields;
  for (const auto& [field, value] : report.items()) fields.push_back(field);
  return fields;
}

}  // namespace

TEST_CASE("`run --device cuda` measures every task of a step beside what a profile predicts") {
  const ProfiledRun processors = profiled_run("");
  const Json& predicted = processors.result.at("predicted");
  CHECK(predicted.at("step_s") > 200);  // that is the profile: two optimizers take 100 s each
  for (const char* graphs : {"", " --cuda-graphs"}) {
    CAPTURE(graphs);
    const ProfiledRun gpus = profiled_run(std::string(" --device cuda") + graphs);
    CHECK(gpus.result.at("predicted") == predicted);
    CHECK(gpus.result.at("beside_bytes") > 0);
    const Json& measured = gpus.result.at("measured");
    CHECK(fields_of(measured) == fields_of(processors.result.at("measured")));
    CHECK(gpus.tasks.size() > 100);
    CHECK(gpus.names() == processors.names());
    // Times are of events, in microseconds with three digits: a lane does one thing at a time, and
    // the first starts the step and the last ends it.
    double first = 1e300, last = 0;
    for (std::size_t i = 0; i < gpus.tasks.size(); ++i) {
      const Json& task = gpus.tasks[i];
      CHECK(task.at("dur") >= 0);
      first = std::min(first, task.at("ts").get<double>());
      last = std::max(last, end_of(task));
      if (i == 0) continue;
      const Json& before = gpus.tasks[i - 1];
      if (before.at("pid") != task.at("pid") || before.at("tid") != task.at("tid")) continue;
      CHECK(end_of(before) <= task.at("ts").get<double>() + 0.002);
    }
    CHECK(last - first == Approx(1e6 * measured.at("step_s").get<double>()).epsilon(1e-6));
  }
}

}  // namespace meshwright::standin
