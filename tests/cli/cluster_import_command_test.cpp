#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/cli/run_program.h"

namespace meshwright {
namespace {

using Catch::Contains;

const std::string kDumps = MESHWRIGHT_TEST_DATA "/import/";

}  // namespace

TEST_CASE("an imported cluster is written whole and simulated on") {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "mine.json").string();
  const std::string call = "cluster import " + kDumps + "h100_topo.txt 'n[1-2]=" + kDumps +
                           "h100_query.xml' --out " + out;
  const ProgramOutput made = run_program(call);
  CHECK(made.exit_code == 0);
  CHECK(made.err.empty());
  CHECK_THAT(made.out, Contains("mine: 16 devices in 2 nodes\n"));
  CHECK_THAT(made.out, Contains("ask next\n  meshwright cluster " + out));
  CHECK(run_program("cluster " + out).exit_code == 0);
  const std::string plan = " --model gpt2 --plan dp=16 --seq 1024 --global-batch 64 --json";
  const auto step = [&](const std::string& cluster) {
    const auto output = run_program("simulate --cluster " + cluster + plan);
    return nlohmann::json::parse(output.out).at("report").at("step_s").get<double>();
  };
  CHECK(step(out) == Approx(step("h100:2x8")).epsilon(0.01));

  const ProgramOutput again = run_program(call);
  CHECK(again.exit_code == 2);
  CHECK_THAT(again.err, Contains("the file is there already; --force replaces it"));
  CHECK(run_program(call + " --force").exit_code == 0);
}

TEST_CASE("an import says in JSON what it read, assumed and found contradictory") {
  const auto document = nlohmann::json::parse(
      run_program("cluster import " + kDumps + "a100_nccl.xml " + kDumps + "h100_query.xml --json")
          .out);
  CHECK(document.at("devices") == 8);
  CHECK(document.at("files")[0].at("kind") == "topology of NCCL");
  CHECK(document.at("contradictions").size() > 1);
  CHECK(document.at("assumed").size() > 1);
  CHECK(document.at("out").is_null());
  CHECK(document.at("cluster").at("format") == "meshwright-cluster");
}

TEST_CASE("what cannot be imported ends with one line and writes nothing") {
  const TemporaryFolder folder;
  const auto out = folder.path() / "mine.json";
  const auto refused = [&](const std::string& file, int exit_code) {
    const ProgramOutput output = run_program("cluster import " + file + " --out " + out.string());
    CHECK(output.exit_code == exit_code);
    CHECK(output.out.empty());
    CHECK(std::count(output.err.begin(), output.err.end(), '\n') == 1);
    CHECK(!std::filesystem::exists(out));
    return output.err;
  };
  CHECK_THAT(refused(kDumps, 20), Contains("is a directory, expected a file"));
  CHECK_THAT(refused("missing.xml", 20), Contains("missing.xml: cannot be read"));
  CHECK_THAT(refused(kDumps + "h100_topo.txt", 20), Contains("no file names its devices"));
  const auto pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THAT(refused(pipe.string(), 20), Contains("is not a regular file"));
  const auto large = folder.path() / "large.xml";
  folder.write("large.xml", "<system>");
  std::filesystem::resize_file(large, (32 << 20) + 1);
  CHECK_THAT(refused(large.string(), 20), Contains("is larger than 32 MiB"));
  CHECK_THAT(refused("", 2), Contains("FILE is required"));
}

}  // namespace meshwright
