#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/run_program.h"

namespace meshwright {
namespace {

using nlohmann::json;

}  // namespace

TEST_CASE("benchmark stores what it measured, goes on where it stopped, and says what is left") {
  const TemporaryFolder folder;
  const std::string command = "benchmark --quick --devices 2 --machine box --json --into " +
                              (folder.path() / "p.db").string();
  const json nothing = json::parse(run_program(command + " --budget 1e-9").out);
  CHECK(nothing.at("measured") == 0);
  CHECK(nothing.at("left") > 300);
  CHECK(nothing.at("complete") == false);

  const json some = json::parse(run_program(command + " --budget 0.2").out);
  const std::int64_t begun =
      some.at("measured").get<std::int64_t>() + static_cast<std::int64_t>(some.at("noisy").size());
  CHECK(begun >= 1);
  CHECK(begun + some.at("left").get<std::int64_t>() == nothing.at("left"));

  const json again = json::parse(run_program(command + " --budget 1e-9").out);
  CHECK(again.at("known") == some.at("measured"));
  const json shown =
      json::parse(run_program("profile show --json " + (folder.path() / "p.db").string()).out);
  // And the row of the device itself, and a second one for each of the three copies.
  const std::int64_t fewest = some.at("measured").get<std::int64_t>() + 1;
  CHECK(shown.at("rows") >= fewest);
  CHECK(shown.at("rows") <= fewest + 3);
  CHECK(shown.at("provenances")[0].at("machine") == "box");
}

TEST_CASE("a benchmark that is killed keeps what it has, and the next one goes on there") {
  const TemporaryFolder folder;
  const std::string program = MESHWRIGHT_PROGRAM, file = (folder.path() / "p.db").string();
  const std::string options = "benchmark --quick --devices 2 --machine box --json --into " + file;
  // Killed once there is something besides the device, if it has not ended by itself.
  const ProgramOutput output = run_program(
      options + " --budget 1e-9",
      program + " " + options + " >/dev/null 2>&1 & pid=$!; until " + program + " profile show " +
          file + " 2>/dev/null | grep -q 'link\\|copy\\|add' || ! kill -0 $pid; do sleep 0.1; " +
          "done; kill -KILL $pid; { wait $pid; } 2>/dev/null; ");
  REQUIRE(output.exit_code == 0);
  const json next = json::parse(output.out);
  CHECK(next.at("known") >= 1);
  CHECK(next.at("measured") == 0);
}

TEST_CASE("a benchmark that is stopped keeps what it has and says so") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "p.db").string();
  // The database is made after signals are watched for.
  const ProgramOutput output = run_program(
      "profile show " + file,
      std::string(MESHWRIGHT_PROGRAM) + " benchmark --quiet --into " + file +
          " >/dev/null 2>&1 & pid=$!; until [ -e " + file +
          " ]; do sleep 0.05; done; kill -TERM $pid; wait $pid; [ $? = 143 ] || exit 99; ");
  CHECK(output.exit_code == 0);
  CHECK_THAT(output.out, Catch::Contains("meshwright benchmark"));
}

// A machine with a GPU measures it; every other one, with or without the CUDA library, says in one
// line what is missing, and makes no profile.
TEST_CASE("benchmark on GPUs says what is missing") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "p.db").string();
  const ProgramOutput output =
      run_program("benchmark --device cuda --quick --budget 1e-9 --json --into " + file);
  const bool has_driver = std::filesystem::exists("/dev/nvidiactl");
  if (output.exit_code == 0) {
    CHECK(has_driver);
    CHECK(json::parse(output.out).at("left") > 100);
    return;
  }
  CHECK(output.exit_code == 30);
  const json error = json::parse(output.err);
  CHECK_THAT(error.at("error").get<std::string>(), Catch::Contains("CUDA"));
  if (!has_driver) {
    CHECK_THAT(error.at("error").get<std::string>(),
               Catch::Contains("no NVIDIA driver") || Catch::Contains("built without CUDA"));
  }
  CHECK(output.out.empty());
  CHECK(!std::filesystem::exists(file));
  CHECK(run_program("benchmark --device cuda --devices 200 --into " + file).exit_code == 30);
}

TEST_CASE("benchmark refuses what it cannot measure") {
  CHECK(run_program("benchmark").exit_code == 2);
  CHECK(run_program("benchmark --into x.db --devices 0").exit_code == 2);
  CHECK(run_program("benchmark --into x.db --precision fp8").exit_code == 2);
  CHECK(run_program("benchmark --into x.db --budget -1").exit_code == 2);
  CHECK(run_program("benchmark --into x.db --device gpu").exit_code == 2);
  CHECK(run_program("benchmark --into x.db --device cuda --precision int4").exit_code == 2);
}

}  // namespace meshwright
