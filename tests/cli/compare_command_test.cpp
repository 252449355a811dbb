#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/cli/run_program.h"

namespace meshwright {
namespace {

using Catch::Contains;
using nlohmann::json;

const std::string kCompared =
    " --model gpt2-tiny --cluster h100 --global-batch 8 --seq 64 --software none ";

double sum_of(const json& rows, const char* field) {
  double sum = 0;
  for (const json& row : rows) {
    if (!row.at(field).is_null()) sum += row.at(field).get<double>();
  }
  return sum;
}

json simulated(const std::string& plan) {
  return json::parse(run_program("simulate --json --plan " + plan + kCompared).out).at("report");
}

std::map<std::string, double> parts_of(const json& times, const char* field) {
  std::map<std::string, double> parts;
  for (const json& row : times) parts[row.at("part")] += row.at(field).get<double>();
  return parts;
}

}  // namespace

TEST_CASE("two plans are compared kind by kind, and the kinds add up to the steps") {
  const json document =
      json::parse(run_program("compare dp=2,recompute=full tp=2,pp=2 --json" + kCompared).out);
  const json first = simulated("dp=2,recompute=full"), second = simulated("tp=2,pp=2");
  CHECK(document.at("first").at("step_s") == first.at("step_s"));
  CHECK(document.at("second").at("step_s") == second.at("step_s"));
  const double slack = 1e-5 * first.at("step_s").get<double>();  // of nanoseconds
  for (const auto& [report, field] : {std::pair(first, "first_s"), {second, "second_s"}}) {
    CHECK(sum_of(document.at("times"), field) ==
          Approx(report.at("step_s").get<double>()).margin(slack));
    auto parts = parts_of(document.at("times"), field);
    for (const auto& [name, seconds] : report.at("parts_s").items()) {
      CAPTURE(name);
      CHECK(parts[name] == Approx(seconds.get<double>()).margin(slack));
    }
  }
  const json& fullest = first.at("devices").at(0);
  CHECK(sum_of(document.at("memory"), "first_bytes") == fullest.at("needed_bytes"));
  CHECK(sum_of(document.at("sent"), "first_bytes") ==
        Approx(fullest.at("sent_bytes").get<double>()));
}

TEST_CASE("the text of a comparison has times, memory and bytes, and what both are") {
  const std::string text = run_program("compare dp=2 tp=2" + kCompared).out;
  for (const char* part :
       {"A: plan dp=2\nB: plan tp=2\n", "B - A", "\nstep ", "\n  forward ", "\n    matmul ",
        "\n  tensor transfer ", "memory, fullest device", "\n  activations ", "bytes sent"}) {
    CHECK_THAT(text, Contains(part));
  }
  CHECK_THAT(run_program("compare dp=2 dp=2" + kCompared).out, Contains("same"));
}

TEST_CASE("a trace, a report and the plan they are of are the same step") {
  const TemporaryFolder folder;
  const std::string trace = (folder.path() / "trace.json").string();
  const std::string report = (folder.path() / "report.json").string();
  const std::string plan = (folder.path() / "plan.json").string();
  REQUIRE(
      run_program("simulate --plan dp=2,tp=2 --trace " + trace + " --save-plan " + plan + kCompared)
          .exit_code == 0);
  REQUIRE(run_program("simulate --plan dp=2,tp=2 --json" + kCompared, "", report).exit_code == 0);
  for (const std::string& other : {trace, report}) {
    const json document =
        json::parse(run_program("compare " + other + " dp=2,tp=2 --json" + kCompared).out);
    CAPTURE(document.dump(1));
    CHECK(std::abs(document.at("difference_s").get<double>()) < 1e-9);
    auto first = parts_of(document.at("times"), "first_s");
    auto second = parts_of(document.at("times"), "second_s");
    for (const auto& [part, seconds] : second) {
      CHECK(first[part] == Approx(seconds).margin(1e-6));
    }
  }
  // Neither needs a model.
  CHECK_THAT(run_program("compare " + trace + " " + report).out,
             Contains("A: trace ") && Contains("B: report "));
  const ProgramOutput saved = run_program("compare " + plan +
                                          " dp=2,tp=2 --json --model gpt2-tiny --cluster h100 "
                                          "--global-batch 8 --seq 64 --software none");
  CHECK(json::parse(saved.out).at("difference_s") == 0);
}

TEST_CASE("a measured step is compared with the prediction") {
  const TemporaryFolder folder;
  const std::string trace = (folder.path() / "trace.json").string();
  REQUIRE(run_program("run --model gpt2-tiny --plan dp=2 --global-batch 2 --seq 16 --steps 2 "
                      "--quiet --trace " +
                      trace)
              .exit_code == 0);
  const json document = json::parse(run_program("compare " + trace + " " + trace + " --json").out);
  const double step = document.at("first").at("step_s");
  CHECK(sum_of(document.at("times"), "first_s") == Approx(step).epsilon(1e-3));
}

TEST_CASE("what cannot be compared is said to") {
  const auto check_error = [](const std::string& arguments, int code, const char* problem) {
    const ProgramOutput output = run_program(arguments);
    CAPTURE(arguments);
    CHECK(output.exit_code == code);
    CHECK_THAT(output.err, Contains(problem));
  };
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "x.json").string();
  check_error("compare dp=1 dp=2", 2, "--model is required");
  check_error("compare dp=1", 2, "B is required");
  check_error("compare missing.json dp=2" + kCompared, 20, "missing.json: cannot be read");
  check_error("compare dp=99 dp=2" + kCompared, 2, "dp x tp x pp = 99 devices");
  std::ofstream(file) << R"({"otherData": {"format": "other"}})";
  check_error("compare dp=1 " + file + kCompared, 20, "expected a trace that simulate or run");
  std::ofstream(file) << R"({"otherData": {"format": "meshwright-trace", "version": 1,
    "step_s": 1e-300}, "traceEvents": [
    {"pid": 0, "ph": "M", "tid": 0, "name": "process_name", "args": {"name": "device 0"}},
    {"pid": 0, "ph": "M", "tid": 0, "name": "thread_name", "args": {"name": "compute"}},
    {"pid": 0, "ph": "X", "tid": 0, "ts": 0, "dur": 5, "name": "a", "cat": "kernel",
     "args": {"kind": "add", "part": "forward", "flops": 1, "bytes": 1}}]})";
  check_error("compare dp=1 " + file + kCompared, 20, "cannot have a task that ends at 5 us");
  std::ofstream(file) << R"({"report": {"step_s": 1, "parts_s": {}, "fullest_device": 3,
    "parts_device": 0, "devices": []}})";
  check_error("compare dp=1 " + file + kCompared, 20, "fullest_device: expected a device of");
}

}  // namespace meshwright
