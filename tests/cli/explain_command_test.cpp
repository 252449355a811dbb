#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/cli/run_program.h"

namespace meshwright {
namespace {

using Catch::Contains;
using nlohmann::json;

const std::string kExplained =
    " --model gpt2-tiny --cluster h100:2x2 --global-batch 8 --seq 64 --software none ";

}  // namespace

TEST_CASE("a waterfall adds up from one step to the other") {
  const json document =
      json::parse(run_program("explain --plan dp=4 --against tp=2,pp=2 --json" + kExplained).out);
  const json& against = document.at("against");
  double sum = document.at("report").at("step_s");
  for (const json& row : against.at("waterfall")) {
    CHECK(row.at("difference_s").get<double>() ==
          Approx(row.at("second_s").get<double>() - row.at("first_s").get<double>()));
    sum += row.at("difference_s").get<double>();
  }
  const double other = against.at("report").at("step_s");
  CHECK(sum == Approx(other).epsilon(1e-6));
  CHECK(against.at("difference_s").get<double>() ==
        Approx(other - document.at("report").at("step_s").get<double>()));
  const auto alone = json::parse(run_program("simulate --plan tp=2,pp=2 --json" + kExplained).out);
  CHECK(against.at("report") == alone.at("report"));
}

TEST_CASE("faster kernels and links are simulated, and are not slower for a plan of one lane") {
  const json document = json::parse(run_program("explain --plan tp=4 --json" + kExplained).out);
  const json& rows = document.at("would_take");
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].at("change") == "twice the bandwidth of nvlink");
  CHECK(rows[2].at("change") == "kernels 1.1 times as fast");
  const double step = document.at("report").at("step_s");
  for (std::size_t i = 0; i < 3; ++i) CHECK(rows[i].at("step_s").get<double>() <= step);
  // Transfers between nodes are in the way of everything, kernels are what they are.
  const double kernels = step - rows[2].at("step_s").get<double>();
  CHECK(kernels > 0);
  CHECK(kernels < 0.1 * step);
  double shares = 0;
  for (const json& bound : document.at("binds")) {
    if (bound.at("resource") != "memory") shares += bound.at("share").get<double>();
  }
  CHECK(shares == Approx(1));
}

TEST_CASE("more nodes are simulated with as many more replicas as the batch allows") {
  const auto rows =
      json::parse(run_program("explain --plan tp=4 --json" + kExplained).out).at("would_take");
  CHECK(rows.back().at("change") == "2 more nodes, dp=2");
  const auto alone = json::parse(run_program("simulate --model gpt2-tiny --cluster h100:4x2 "
                                             "--global-batch 8 --seq 64 --software none --json "
                                             "--plan dp=2,tp=4")
                                     .out);
  CHECK(rows.back().at("step_s") == alone.at("report").at("step_s"));
}

TEST_CASE("the explanation says what binds, what would help, and what each choice costs") {
  const std::string text = run_program("explain --plan dp=2,pp=2 --against dp=4" + kExplained).out;
  std::size_t at = 0;
  for (const char* part :
       {"gpt2-tiny on h100:2x2: 4 of 4 devices", "fits; step ", "what binds, most first",
        "what this plan would take with", "twice the bandwidth of ",
        "why not the other, which fits", "dp=4", "the price of each choice"}) {
    CAPTURE(part, text);
    const auto found = text.find(part, at);
    REQUIRE(found != std::string::npos);
    at = found;
  }
}

TEST_CASE("memory binds first where a choice that does not fit would be the fastest") {
  const auto explained = [](const std::string& plan) {
    return json::parse(
        run_program("explain --model llama3-70b --cluster h100:8x8 --global-batch 32 "
                    "--seq 8192 --json --plan dp=4,tp=4,pp=4,zero=1," +
                    plan)
            .out);
  };
  const json tight = explained("sequence_parallel=true,recompute=full");
  CHECK(tight.at("binds")[0].at("resource") == "memory");
  CHECK_THAT(tight.at("binds")[0].at("words").get<std::string>(),
             Contains("; with more, recompute=none would take"));
}

TEST_CASE("offloaded plans are told of faster hosts, and files have no choices to change") {
  const json document =
      json::parse(run_program("explain --plan dp=2,offload=activations --json" + kExplained).out);
  CHECK(document.at("would_take")[2].at("change") == "twice the bandwidth to the hosts");
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "plan.json").string();
  REQUIRE(run_program("simulate --plan dp=2 --save-plan " + file + kExplained).exit_code == 0);
  const ProgramOutput output =
      run_program("explain --model gpt2-tiny --cluster h100:2x2 --software none --plan " + file);
  CHECK(output.exit_code == 0);
  CHECK_THAT(output.out, Contains("The plan is a file, which has no choices to change"));
  const ProgramOutput missing = run_program("explain --model gpt2-tiny --plan dp=2");
  CHECK(missing.exit_code == 2);
  CHECK_THAT(missing.err, Contains("--cluster is required"));
}

}  // namespace meshwright
