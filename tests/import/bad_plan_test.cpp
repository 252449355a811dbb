#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "costmodel/base/input_error.h"
#include "tests/bad_files.h"
#include "tests/costmodel/mutations.h"
#include "tests/import/plan_examples.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

using Catch::Contains;

}  // namespace

TEST_CASE("values that the framework itself would refuse are no plan") {
  const auto refused = [](const std::string& good, const std::string& from, const std::string& to) {
    REQUIRE(good.find(from) != good.npos);
    try {
      plan_from(replaced(good, from, to), {.layers = 80});
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
      return std::string(error.what());
    }
    return std::string("read");
  };
  // A batch that no whole number of micro-batches makes up.
  CHECK_THAT(refused(kMegatronScript, "--global-batch-size 64", "--global-batch-size 63"),
             Contains("--global-batch-size 63: expected a multiple of 1 samples for each of 2"));
  CHECK_THAT(refused(kDeepSpeedFile, ": 128", ": 127"), Contains("train_batch_size 127"));
  CHECK_THAT(
      refused(kTorchtitanFile, "local_batch_size", "global_batch_size = 63\nlocal_batch_size"),
      Contains("training.global_batch_size 63: expected a multiple of"));
  // Degrees of nobody, texts and lists in place of numbers.
  for (const char* tp : {"0", "-2", "2.5", "two", "0x2", "1048577"}) {
    CAPTURE(tp);
    CHECK_THAT(
        refused(kMegatronScript, "TP=4", fmt::format("TP={}", tp)),
        Contains(fmt::format("--tensor-model-parallel-size {}: expected a whole number", tp)));
    CHECK_THAT(refused(kNanotronFile, "  tp: ", fmt::format("  tp: {} #", tp)),
               Contains(fmt::format("parallelism.tp {}: expected a whole number", tp)));
  }
  CHECK_THAT(refused(kDeepSpeedFile, ": 128", ": \"128\""),
             Contains("train_batch_size 128: expected a whole number") && Contains("found text"));
  CHECK_THAT(refused(kDeepSpeedFile, ": 128", ": [128]"), Contains("expected one value, found a"));
  CHECK_THAT(refused(kNanotronFile, "  tp: ", "  tp: \"2\" #"),
             Contains("parallelism.tp 2: expected a whole number") && Contains("found text"));
  CHECK_THAT(refused(kNanotronFile, "  tp: ", "  tp: [2] #"), Contains("found a list"));
  CHECK_THAT(refused(kNanotronFile, "  tp: ", "  tp: ~ #"), Contains("parallelism.tp: is missing"));
  CHECK_THAT(refused(kNanotronFile, "  tp: ", "  tpp: "), Contains("parallelism.tp: is missing"));
  CHECK_THAT(refused(kNanotronFile, "  tp: ", "  <<: {a: 1}\n  tp: "),
             Contains("has a merge key (<<), which is not read"));
  CHECK_THAT(refused(kTorchtitanFile, "seq_len = ", "seq_len = \"2048\" # "),
             Contains("found text"));
}

TEST_CASE("hostile configuration files end in one line") {
  const auto refused = [](const std::string& text) {
    try {
      plan_from(text, {.devices = 8});
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
      return std::string(error.what());
    }
    return std::string("read");
  };
  CHECK_THAT(refused("parallelism:\n  dp: &a 2\n  pp: *a\n"), Contains("f: line 3: has an alias"));
  std::string bomb = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 30; ++i) {
    bomb += fmt::format("a{}: &a{} [*a{}, *a{}]\n", i, i, i - 1, i - 1);
  }
  CHECK_THAT(refused(bomb), Contains("has an alias"));
  const auto nested = [](const std::string& start, char open, int depth) {
    return start + std::string(static_cast<std::size_t>(depth), open);
  };
  std::string maps;
  for (int i = 0; i < 10'000; ++i) maps += "{a: ";
  CHECK_THAT(refused("a: " + maps), Contains("f: line 1: nested deeper than 64"));
  CHECK_THAT(refused(nested("a: ", '[', 100'000)), Contains("f: line 1: "));
  CHECK_THAT(refused(nested("{\"a\": ", '[', 100'000)), Contains("nested deeper than 64"));
  CHECK_THAT(refused("[a]\n" + nested("b = ", '[', 1000)), Contains("f: line 2: nested deeper"));
  std::string dotted = "[a]\nb";
  for (int i = 0; i < 100'000; ++i) dotted += ".b";
  CHECK_THAT(refused(dotted + " = 1"), Contains("f: line 2: is longer than 4096 bytes"));
  CHECK_THAT(refused("parallelism:\n  dp: 1\n  dp: 2\n"), Contains("\"dp\" is given twice"));
  CHECK_THAT(refused("{\"bf16\": {}, \"bf16\": {}}"), Contains("\"bf16\" is given twice"));
  CHECK_THAT(refused("[training]\nseq_len = 1\nseq_len = 2\n"), Contains("f: is no TOML"));
  CHECK_THAT(refused(std::string("--bf16\0--fp16", 13)), Contains("has a NUL byte"));
  CHECK_THAT(refused("a: 1\nb: 2\n"), Contains("is YAML of no framework"));
  CHECK_THAT(refused("{\"a\": 1}"), Contains("is JSON of no framework"));
  CHECK_THAT(refused("[a]\nb = 1\n"), Contains("is TOML of no framework"));
  CHECK_THAT(refused("hello world"), Contains("no command starts a training program"));
  std::string many = "parallelism:\n", table = "[training]\n", object = "{\"bf16\": {}";
  std::string module = "import torchtitan\n";
  for (int i = 0; i < 30'000; ++i) {
    many += fmt::format("  k{}: 1\n", i);
    table += fmt::format("k{} = 1\n", i);
    object += fmt::format(", \"k{}\": 1", i);
    module += fmt::format("k{} = 1\n", i);
  }
  for (const std::string& text : {many, table, object + "}", module}) {
    CHECK_THAT(refused(text), Contains("f: has more than 20000 values"));
  }
  CHECK_THAT(refused(std::string(1000, 'k') + ":\n  a: 1\n"), Contains("a key is longer than 256"));
  // Variables that double each other.
  std::string doubling = "A0=xxxxxxxxxxxxxxxx\n";
  for (int i = 1; i < 60; ++i) doubling += fmt::format("A{}=$A{}$A{}\n", i, i - 1, i - 1);
  CHECK_THAT(refused(doubling + "torchrun x.py --lr $A59"), Contains("is longer than"));
  std::string lists = "A0=(x x)\n";
  for (int i = 1; i < 60; ++i) {
    lists += fmt::format("A{}=(\"${{A{}[@]}}\" \"${{A{}[@]}}\")\n", i, i - 1, i - 1);
  }
  CHECK_THAT(refused(lists), Contains("has more than 20000 words"));
}

TEST_CASE("spoiled plans of other programs are refused in one line, or are plans") {
  const std::uint64_t seed = 20261118;
  INFO("seed " << seed);
  Mutations mutations(seed);
  for (const std::string& good : {kMegatronScript, kDeepSpeedFile, kTorchtitanFile, kNanotronFile,
                                  kAccelerateFile, kPythonFile}) {
    for (int i = 0; i < cases(200, 10'000); ++i) {
      try {
        const ImportedPlan plan = plan_from(mutations.of_bytes(good), {.layers = 80});
        CHECK(parse_plan_choices(plan.choices_text).tp == plan.choices.tp);
      } catch (const InputError& error) {
        CHECK(std::string(error.what()).find('\n') == std::string::npos);
      }
    }
  }
}

}  // namespace meshwright
