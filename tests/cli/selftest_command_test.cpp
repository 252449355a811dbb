#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/cli/run_program.h"

namespace meshwright {

TEST_CASE("selftest tries kernels, transfers, training and memory, and all of them pass here") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "report.json").string();
  const std::string command = "selftest --devices 2 --json --out " + file;
  const ProgramOutput first = run_program(command);
  CAPTURE(first.out, first.err);
  REQUIRE(first.exit_code == 0);
  const auto report = nlohmann::json::parse(first.out);
  CHECK(report.at("device") == "cpu");
  CHECK(report.at("devices") == 2);
  CHECK(report.at("failed") == 0);
  CHECK(report.at("passed") == report.at("checks").size());
  std::set<std::string> parts;
  std::size_t trained = 0;
  for (const auto& check : report.at("checks")) {
    parts.insert(check.at("part").get<std::string>());
    trained += check.at("part") == "training";
  }
  CHECK(parts == std::set<std::string>{"kernels", "memory", "training", "transfers"});
  CHECK(trained == 2 * 3 * 6);  // models, precisions, plans
  std::ifstream written(file);
  CHECK(nlohmann::json::parse(written) == report);

  const ProgramOutput again = run_program(command);
  CHECK(again.exit_code == 2);
  CHECK_THAT(again.err, Catch::Contains("--force"));
  const ProgramOutput text = run_program("selftest --devices 1");
  CHECK(text.exit_code == 0);
  CHECK_THAT(text.out, Catch::Contains("kernels") && Catch::Contains("passed"));
}

TEST_CASE("selftest of GPUs says what is missing where there are none") {
  const ProgramOutput none = run_program("selftest --device cuda");
  CHECK(none.exit_code == 30);
  CHECK(none.out.empty());
  CHECK_THAT(none.err, Catch::Contains("CUDA"));
  CHECK(run_program("selftest --device tpu").exit_code == 2);
}

}  // namespace meshwright
