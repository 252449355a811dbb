#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "costmodel/base/input_error.h"
#include "tests/import/plan_examples.h"

// How far scripts and modules are read without being run.
namespace meshwright {

namespace {

using Catch::Contains;

}  // namespace

TEST_CASE("conditions of known words are decided, others are not") {
  const auto tp = [](const std::string& script) {
    return plan_from("A=fp8 N=4\ntp=(--tensor-model-parallel-size 1)\n" + script +
                         "\npython x.py --num-layers 8 \"${tp[@]}\"\n",
                     {.devices = 64})
        .choices.tp;
  };
  const std::string set = "tp=(--tensor-model-parallel-size 2)";
  for (const char* condition :
       {"[[ \"$A\" == \"fp8\" ]]", "[ $A != bf16 ]", "[ \"$N\" -gt 3 ]", "[ -n \"$A\" ]",
        "[ -z \"$U\" ]", "[[ $U == x ]] || [[ $A == fp8 ]]", "[ $N -le 4 ] && [ $A = fp8 ]",
        "! [ $A = x ]", "test $A", "[ \"${U:-fp8}\" = $A ]"}) {
    CAPTURE(condition);
    CHECK(tp(fmt::format("if {}; then\n{}\nfi", condition, set)) == 2);
    CHECK(tp(fmt::format("if {}; then :; else {}; fi", condition, set)) == 1);
    CHECK(tp(fmt::format("if false; then :\nelif {}; then {}; fi", condition, set)) == 2);
    CHECK(tp(fmt::format("if true; then :; elif {}; then {}; fi", condition, set)) == 1);
  }
  CHECK(tp("[ $A = fp8 ] && " + set) == 2);
  CHECK(tp("[ $A = fp8 ] || " + set) == 1);
  CHECK(tp("[ $A = x ] && " + set) == 1);
  CHECK(tp("mkdir x && " + set) == 2);
  CHECK(tp("mkdir x || " + set) == 1);
  for (const char* condition : {"[ -f x ]", "[[ $A == f* ]]", "grep -q x y", "[ $(date) = x ]"}) {
    CAPTURE(condition);
    CHECK_THROWS_WITH(tp(fmt::format("if {}; then {}; fi", condition, set)),
                      Contains("tp is set under a condition or in a loop"));
  }
  CHECK_THROWS_WITH(tp("[ -f x ] && " + set), Contains("under a condition"));
}

TEST_CASE("arithmetic of known numbers is done, other is not") {
  const auto batch = [](const std::string& text) {
    return plan_from(
               "N=4\nG=8\nB=$((N * G))\npython x.py --num-layers 8 --global-batch-size " + text,
               {.devices = 1})
        .global_batch;
  };
  CHECK(batch("$((2*3+4))") == 10);
  CHECK(batch("$(( 2 * (3 + ${N}) ))") == 14);
  CHECK(batch("$(( $G / N ))") == 2);
  CHECK(batch("$(( -2 + B % 5 + 10 ))") == 10);
  CHECK(batch("$B") == 32);
  CHECK(batch("$(( ($N > 1) ? 6 : 7 ))") == 6);
  CHECK(batch("$(( N == G ? 6 : N <= 4 ? 8 : 9 ))") == 8);
  CHECK(batch("$(( (N != 4) + 5 ))") == 5);
  for (const char* text :
       {"$((M * 2))", "$((1 / 0))", "$((9223372036854775807 + 1))", "$((1 << 3))", "$((2 ** 3))",
        "$((N++))", "$((1 ? 2))", "$((((((((((1)))))))", "$(( ))"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(batch(text), InputError);
  }
  const std::string deep(200, '(');
  CHECK_THROWS_AS(batch("$((" + deep + "1" + std::string(200, ')') + "))"), InputError);
}

TEST_CASE("arguments are those that are given or that the script sets itself") {
  const auto tp = [](const std::string& script, const std::vector<std::string>& arguments = {}) {
    return plan_from(script + "\npython x.py --num-layers 8 --tensor-model-parallel-size $TP",
                     {.devices = 64, .arguments = arguments})
        .choices.tp;
  };
  CHECK(tp("TP=$1", {"4"}) == 4);
  CHECK(tp("TP=${2}", {"4", "2"}) == 2);
  CHECK(tp("TP=${1:-8}") == 8);
  CHECK(tp("TP=${1:-8}", {"4"}) == 4);
  CHECK(tp("shift; TP=$1", {"x", "2"}) == 2);
  CHECK(tp("shift 2\nTP=$((2 * $1))", {"x", "y", "2"}) == 4);
  CHECK(tp("TP=$#", {"a b", "c"}) == 2);
  CHECK(tp("set -- 8 4\nTP=$2", {"1", "1"}) == 4);
  CHECK(tp("set -e\nTP=$1", {"2"}) == 2);
  CHECK(tp("if [ $# -lt 1 ]; then TP=8; else TP=$1; fi") == 8);
  CHECK(tp("[ -z \"$1\" ] && TP=8") == 8);
  // Options that a script reads of its arguments are as they were where there are none.
  const std::string body = "\ndo\ncase $1 in --tp) TP=$2; shift;; esac\nshift\ndone";
  for (const char* loop : {"while [ $# -gt 0 ];", "while [[ \"$1\" != \"\" ]];", "for x in \"$@\";",
                           "for x;", "while getopts \"t:\" option;"}) {
    CAPTURE(loop);
    CHECK(tp("TP=2\n" + (loop + body)) == 2);
    CHECK_THROWS_WITH(tp("TP=2\n" + (loop + body), {"--tp", "4"}),
                      Contains("--tensor-model-parallel-size $TP: is computed"));
  }
  CHECK_THROWS_WITH(tp("TP=$1"), Contains("f: line 2: --tensor-model-parallel-size $1: is "));
  CHECK_THROWS_WITH(tp("TP=$2", {"4"}), Contains("--tensor-model-parallel-size $2: is computed"));
  CHECK_THROWS_WITH(tp("if [ -f x ]; then set -- 4; fi\nTP=${1:-2}"),
                    Contains("--tensor-model-parallel-size $1: is computed"));
  CHECK_THROWS_WITH(tp("shift $(date)\nTP=$1", {"4", "2"}), Contains("$1: is computed"));
}

TEST_CASE("options that a script is given are options of its command") {
  const auto plan = [](const std::string& words, const std::vector<std::string>& arguments) {
    return plan_from("python x.py --num-layers 8 " + words,
                     {.devices = 64, .arguments = arguments});
  };
  const std::vector<std::string> given = {"--tensor-model-parallel-size", "4", "--seq-length",
                                          "4096"};
  for (const char* words : {"\"$@\"", "$@", "$*", "${@}"}) {
    CAPTURE(words);
    CHECK(plan(words, given).choices.tp == 4);
    CHECK(plan(words, given).sequence == 4096);
    CHECK(plan(words, {}).choices.tp == 1);
  }
  CHECK_THROWS_WITH(plan("; set -- $(cat x)\npython x.py --num-layers 8 \"$@\"", {}),
                    Contains("f: line 2: $(cat x): is computed") && Contains("--arguments"));
  CHECK_THROWS_WITH(
      plan_from("if [ -f x ]; then set -- --bf16; fi\npython x.py --num-layers 8 \"$@\""),
      Contains("f: line 1: \"$@\" is set under a condition or in a loop"));
}

TEST_CASE("where the output of a command goes is no option of it") {
  const std::string options = "--num-layers 8 --tensor-model-parallel-size 2";
  CHECK(plan_from("run=\"python x.py " + options + " &> $HOME/log\"\neval $run", {.devices = 8})
            .choices.tp == 2);
  CHECK(plan_from("run=\"python x.py " + options + " 2>&1 | tee log\"\neval ${run}", {.devices = 8})
            .choices.tp == 2);
  CHECK_THROWS_WITH(plan_from("python x.py " + options + " $pr_options", {.devices = 8}),
                    Contains("$pr_options: is computed, or set by nothing in the file"));
}

TEST_CASE("of a Python file with several functions one is asked for") {
  const std::string file =
      "from megatron.bridge import x\n"
      "def small():\n    cfg.model.tensor_model_parallel_size = 1\n"
      "def large():\n    cfg.model.tensor_model_parallel_size = 8\n";
  CHECK_THROWS_WITH(plan_from(file, {.devices = 8}),
                    Contains("f: its functions set the same names to different values; say which "
                             "one is run (--function small): small, large"));
  CHECK(plan_from(file, {.devices = 8, .function = "large"}).choices.tp == 8);
  CHECK(plan_from(file, {.devices = 8, .function = "small"}).choices.tp == 1);
  CHECK_THROWS_WITH(plan_from(file, {.devices = 8, .function = "huge"}),
                    Contains("f: has no function huge that sets something; it has small, large"));
}

TEST_CASE("what converts products of a torchtitan module is its precision") {
  const auto precision = [](const std::string& converter) {
    return plan_from(
               "from torchtitan import x\ndef mine():\n    spec = model_registry(\"405B\", "
               "converters=[" +
                   converter +
                   "])\n    return Trainer.Config(model_spec=model_registry(\"405B\", "
                   "converters=[" +
                   converter + "]), training=TrainingConfig(local_batch_size=2))\n",
               {.devices = 8})
        .precision;
  };
  CHECK(precision("Float8LinearConverter.Config(filter_fqns=[\"lm_head\"])") == Precision::FP8);
  CHECK(precision("") == Precision::BF16);
  CHECK_THROWS_WITH(precision("NVFP4Converter.Config()"), Contains("plans know float8 alone"));
}

TEST_CASE("what the program fills in is taken as left out, and told") {
  const std::string file = R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
    "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}})";
  const ImportedPlan plan = plan_from(file, {.devices = 8, .microbatch = 2});
  CHECK(plan.choices.zero == 2);
  CHECK(plan.choices.microbatch == 2);
  REQUIRE(plan.notes.size() == 1);
  CHECK_THAT(plan.notes[0], Contains("train_batch_size, train_micro_batch_size_per_gpu, "
                                     "zero_optimization.reduce_bucket_size"));
}

TEST_CASE("a script that starts too few devices is read for the cluster") {
  const std::string script =
      "torchrun --nproc_per_node 8 x.py --num-layers 8 --tensor-model-parallel-size 8 "
      "--pipeline-model-parallel-size 4";
  CHECK_THROWS_WITH(plan_from(script), Contains("8 devices are no multiple of tp=8 x pp=4"));
  const ImportedPlan plan = plan_from(script, {.cluster_devices = 64});
  CHECK(plan.choices.dp == 2);
  REQUIRE(plan.notes.size() == 1);
  CHECK_THAT(plan.notes[0], Contains("starts 8 devices, too few"));
}

TEST_CASE("archives and graphs are no plans") {
  for (const std::string& start : {std::string("PK\3\4\0\0", 6), std::string("\x08\x07\x12\0", 4),
                                   std::string("\x08\x07\x12")}) {
    CHECK_THROWS_WITH(plan_from(start), Contains("expected text"));
  }
}

}  // namespace meshwright
