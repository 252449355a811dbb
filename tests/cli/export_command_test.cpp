#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/bad_files.h"
#include "tests/cli/run_program.h"

namespace meshwright {
namespace {

using Catch::Matchers::Contains;

const std::string kAsked =
    "export --model gpt2 --cluster h100 --global-batch 32 --seq 1024 --to megatron-lm ";

std::string read(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

}  // namespace

TEST_CASE("an export is a folder with what starts training, the plan and a README") {
  const TemporaryFolder folder;
  const auto out = folder.path() / "a run";
  const auto done =
      run_program(kAsked + "--plan dp=2,tp=2,pp=2,zero=1 --out '" + out.string() + "'");
  REQUIRE(done.exit_code == 0);
  CHECK_THAT(read(out / "train.sh"), Contains("--tensor-model-parallel-size 2"));
  CHECK_THAT(read(out / "README.md"), Contains("core_v0.16.1") && Contains("bash train.sh") &&
                                          Contains("tokens/s") && Contains("GiB"));
  const auto again = run_program("simulate --model gpt2 --cluster h100 --json --plan '" +
                                 out.string() + "/plan.json' --software megatron-core");
  CHECK(again.exit_code == 0);
  using std::filesystem::perms;
  CHECK((std::filesystem::status(out / "train.sh").permissions() & perms::owner_exec) !=
        perms::none);
}

TEST_CASE("a folder that is there is not written into unless it is asked for") {
  const TemporaryFolder folder;
  const auto own = folder.write("train.sh", "mine\n");
  const std::string plan = kAsked + "--plan dp=8 --out " + folder.path().string();
  const auto refused = run_program(plan);
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Contains("is there already; --force writes into it"));
  CHECK(read(own) == "mine\n");
  CHECK(run_program(plan + " --force").exit_code == 0);
  CHECK_THAT(read(own), Contains("pretrain_gpt.py"));
  const auto on_file = run_program(kAsked + "--plan dp=8 --force --out " + own.string());
  CHECK(on_file.exit_code == 2);
  CHECK_THAT(on_file.err, Contains("is a file, expected a folder"));
  const auto below_file = run_program(kAsked + "--plan dp=8 --out " + own.string() + "/below");
  CHECK(below_file.exit_code == 44);
  CHECK(below_file.err == "meshwright: " + own.string() + ": Not a directory\n");
}

TEST_CASE("what a target cannot be told ends with 12, every field, and the nearest plan") {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "out").string();
  const std::string plan =
      kAsked + "--plan dp=4,pp=2,zero=2,schedule=gpipe,recompute=products --out " + out;
  const auto refused = run_program(plan);
  CHECK(refused.exit_code == 12);
  CHECK_THAT(refused.out, Contains("schedule=gpipe: ") && Contains("recompute=products: ") &&
                              Contains("zero=2: ") && Contains("the nearest that can be written"));
  CHECK_THAT(refused.err, Contains("cannot carry recompute, schedule, zero"));
  CHECK_FALSE(std::filesystem::exists(out));
  const auto json = nlohmann::json::parse(run_program(plan + " --json").out);
  CHECK(json["refusals"].size() == 3);
  CHECK(json["nearest"]["step_s"].get<double>() > 0);
  const auto nearest =
      run_program(kAsked + "--plan " + json["nearest"]["choices"].get<std::string>() + " --json");
  REQUIRE(nearest.exit_code == 0);
  CHECK(nlohmann::json::parse(nearest.out)["predicted"]["step_s"] == json["nearest"]["step_s"]);
}

TEST_CASE("targets and versions there is no table for are refused with those there are") {
  const auto target =
      run_program("export --model gpt2 --cluster h100 --plan dp=8 --to megatron --global-batch 8");
  CHECK(target.exit_code == 2);
  CHECK_THAT(target.err, Contains("--to megatron: expected megatron-lm"));
  const auto version = run_program(kAsked + "--plan dp=8 --target-version core_v0.1");
  CHECK(version.exit_code == 2);
  CHECK_THAT(version.err, Contains("--target-version core_v0.1: megatron-lm is written for"));
  const auto list = run_program("export --list");
  CHECK(list.exit_code == 0);
  CHECK_THAT(list.out, Contains("megatron-lm core_v0.16.1"));
}

TEST_CASE("a plan that is searched for a target can be written for it") {
  const TemporaryFolder folder;
  const std::string plan = (folder.path() / "plan.json").string();
  const std::string asked = " --model llama2-7b --cluster h100:2x8 --quiet ";
  for (const std::string target : {"megatron-lm", "deepspeed", "torchtitan", "nanotron",
                                   "accelerate", "colossal-ai", "megatron-bridge"}) {
    CAPTURE(target);
    const auto found = run_program("plan --global-batch 64 --seq 4096 --json --top 3 --target " +
                                   target + " --save " + plan + asked);
    REQUIRE(found.exit_code == 0);
    const auto json = nlohmann::json::parse(found.out);
    const auto written = run_program("export --json --to " + target + " --plan " + plan + asked);
    REQUIRE(written.exit_code == 0);
    CHECK(nlohmann::json::parse(written.out)["predicted"]["step_s"] ==
          json["plans"][0]["report"]["step_s"]);
    for (const auto& one : json["plans"]) {
      const auto choices = one["choices"].get<std::string>();
      CAPTURE(choices);
      CHECK(run_program("simulate --global-batch 64 --seq 4096 --target " + target + " --plan '" +
                        choices + "'" + asked)
                .exit_code == 0);
    }
  }
}

TEST_CASE("simulate says what its target cannot be told") {
  const auto refused = run_program(
      "simulate --model gpt2 --cluster h100 --plan dp=8,zero=1 --global-batch 32 --seq 1024 "
      "--target accelerate");
  CHECK(refused.exit_code == 12);
  CHECK_THAT(refused.out, Contains("zero=1: it has 2, 3"));
}

}  // namespace meshwright
