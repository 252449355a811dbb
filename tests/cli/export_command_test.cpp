#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/bad_files.h"
#include "tests/cli/run_program.h"
#include "tests/export/carried_matrix.h"
#include "tests/export/legal_pairs.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

using Catch::Matchers::Contains;

const std::string kAsked =
    "export --model gpt2 --cluster h100 --global-batch 32 --seq 1024 --to megatron-lm ";

std::string read(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

std::string words(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const std::string_view part : parts) all += std::string(part) + " ";
  return all;
}

// "--pin dp=4 --pin pp=2"
std::string pins_of(std::string_view plan) {
  std::string pins = "--pin ";
  for (const char c : plan) pins += c == ',' ? " --pin " : std::string(1, c);
  return pins;
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
  const auto device = run_program(kAsked + "--plan dp=8 --out /dev/null/x");
  CHECK(device.exit_code == 44);
  CHECK(device.err == "meshwright: /dev/null: Not a directory\n");
  std::filesystem::create_symlink(folder.path() / "nowhere", folder.path() / "dangling");
  const auto dangling =
      run_program(kAsked + "--plan dp=8 --out " + (folder.path() / "dangling").string());
  CHECK(dangling.exit_code == 2);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "nowhere"));
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

TEST_CASE("a field that a target has no word for ends with 12 and is named") {
  int cell = 0;
  for (const MatrixRow& row : kMatrix) {
    for (std::size_t i = 0; i < kMatrixTargets.size(); ++i) {
      if (!is_refused_cell(row.cells[i]) || cell++ % one_in(25) != 0) continue;
      const MatrixTarget& target = kMatrixTargets[i];
      const auto refused = run_program(
          "export --cluster h100:1x8 --global-batch 64 --seq 2048 " +
          words({"--model", matrix_model(target, row.experts), "--to", target.name,
                 "--target-version", target.version, "--plan", matrix_plan(row, target)}));
      CAPTURE(target.name, target.version, row.plan, refused.err, refused.out);
      CHECK(refused.exit_code == 12);
      const bool context = row.field == "cp" && refused.out.find("  context=") != std::string::npos;
      CHECK(
          (context || refused.out.find("  " + std::string(row.field) + "=") != std::string::npos));
    }
  }
  CHECK(cell > 80);
}

// What no plan at all may be is refused before any target is asked.
TEST_CASE("export, simulate and plan obey the same rules of a target") {
  int number = 0;
  for (const LegalPair& pair : kLegalPairs) {
    if (number++ % one_in(30) != 0) continue;
    const std::string setting =
        words({"--model", pair.model, "--cluster", pair.cluster, "--global-batch",
               std::to_string(pair.global_batch), "--seq", std::to_string(pair.sequence)});
    for (const std::string_view plan : {pair.legal, pair.illegal}) {
      const auto written =
          run_program("export " + setting + words({"--to", pair.target, "--plan", plan}));
      const auto simulated =
          run_program("simulate " + setting + words({"--target", pair.target, "--plan", plan}));
      const auto searched =
          run_program("plan --quiet --target " + words({pair.target}) + setting + pins_of(plan));
      CAPTURE(pair.rule, pair.target, plan, written.err, searched.err);
      CHECK(simulated.exit_code == written.exit_code);
      CHECK((searched.exit_code == 0) == (plan == pair.legal));
      if (plan == pair.legal) {
        CHECK(written.exit_code == 0);
      } else {
        CHECK((written.exit_code == 12 || written.exit_code == 2));
        CHECK_THAT(written.out + written.err, Contains(std::string(pair.field) + "=") ||
                                                  Contains("kv_heads") || Contains("cp="));
      }
    }
  }
}

TEST_CASE("a batch that replicas and micro-batches do not divide is no target's") {
  const std::string asked = " --model gpt2 --cluster h100 --global-batch 64 --seq 1024 ";
  for (const std::string command :
       {"export --to megatron-lm --plan ", "simulate --target megatron-lm --plan "}) {
    CHECK(run_program(command + "dp=8,microbatch=4" + asked).exit_code == 0);
    const auto refused = run_program(command + "dp=8,microbatch=3" + asked);
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err, Contains("a global batch of 64 cannot be cut into dp=8 times micro-"));
  }
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
