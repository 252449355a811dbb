#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/cli/run_program.h"

namespace meshwright {
namespace {

using Catch::Contains;

const std::string kScript = MESHWRIGHT_TEST_DATA "/import/megatron_70b.sh";

}  // namespace

TEST_CASE("an import prints the plan, what it ignored, and commands that work as printed") {
  const ProgramOutput output = run_program("import " + kScript + " --cluster h100:4x8");
  CHECK(output.exit_code == 0);
  CHECK(output.err.empty());
  CHECK_THAT(output.out, Contains("a plan of megatron-lm\n"));
  CHECK_THAT(output.out, Contains("dp=2,tp=4,pp=4,zero=1,microbatch=1,sequence_parallel=true,"
                                  "recompute=selective"));
  CHECK_THAT(output.out, Contains("as llama2-70b, llama3-70b"));
  CHECK_THAT(output.out, Contains("--lr 1.5e-4 (line 37), --save $1 (line 38)"));
  const auto document = nlohmann::json::parse(
      run_program("import " + kScript + " --model llama3-70b --cluster h100:4x8 --json").out);
  REQUIRE(document.at("next").size() == 3);
  CHECK(document.at("set_aside")[0].at("key") == "--overlap-param-gather");
  std::string simulate = document.at("next")[0];
  REQUIRE(simulate.starts_with("meshwright simulate "));
  CHECK(run_program(simulate.substr(11)).exit_code == 0);
  CHECK_THAT(document.at("next")[1].get<std::string>(), Contains("meshwright explain --model"));
  CHECK_THAT(document.at("next")[2].get<std::string>(), Contains("meshwright plan --model"));
}

TEST_CASE("an imported plan is saved whole and simulated from its file") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "plan.json").string();
  const std::string call =
      "import " + kScript + " --model llama3-70b --cluster h100:4x8 --save " + file;
  CHECK(run_program(call).exit_code == 0);
  CHECK(run_program("simulate --model llama3-70b --cluster h100:4x8 --plan " + file +
                    " --software megatron-core")
            .exit_code == 0);
  CHECK(run_program(call).exit_code == 2);
  CHECK(run_program(call + " --force").exit_code == 0);
}

TEST_CASE("what an import cannot do ends with one line and its exit code") {
  const auto refused = [](const std::string& arguments, int exit_code) {
    const ProgramOutput output = run_program("import " + arguments);
    CHECK(output.exit_code == exit_code);
    CHECK(output.out.empty());
    CHECK(std::count(output.err.begin(), output.err.end(), '\n') == 1);
    return output.err;
  };
  CHECK_THAT(refused(kScript + " --devices 24", 20), Contains("24 devices are no multiple"));
  CHECK_THAT(refused(kScript + " --save p.json --model llama3-70b", 2), Contains("--save needs"));
  CHECK_THAT(refused(MESHWRIGHT_TEST_DATA, 20), Contains("is a directory"));
  CHECK_THAT(refused(kScript + " " MESHWRIGHT_TEST_DATA "/import/h100_query.xml", 20),
             Contains("h100_query.xml"));
  // A plan that does not fit the cluster is told, and not followed by commands that would fail.
  const ProgramOutput small = run_program("import " + kScript + " --cluster h100:1x8");
  CHECK(small.exit_code == 0);
  CHECK_THAT(small.out, Contains("cannot be simulated\n"));
  CHECK(small.out.find("ask next") == std::string::npos);
}

}  // namespace meshwright
