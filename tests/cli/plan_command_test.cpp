#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "tests/cli/run_program.h"

namespace meshwright {
namespace {

using Catch::Contains;
using nlohmann::json;

const std::string kTask = " --model gpt2-tiny --cluster h100:2x2 --global-batch 8 --seq 64 ";
// Where memory decides: 4 devices hold the model, and not all that its layers keep.
const std::string kLarge =
    " --model llama3-8b --cluster h100:1x4 --global-batch 8 --seq 8192 "
    "--pin pp=1,microbatch=1 ";

json planned(const std::string& options) {
  const ProgramOutput output = run_program("plan --json " + options);
  CAPTURE(options, output.err);
  REQUIRE(output.exit_code == 0);
  return json::parse(output.out);
}

double step_of(const json& plan) { return plan.at("report").at("step_s").get<double>(); }

void check_refused(const std::string& options, int exit_code, const std::string& problem) {
  const ProgramOutput output = run_program("plan " + options);
  CAPTURE(options, output.err);
  CHECK(output.exit_code == exit_code);
  CHECK_THAT(output.err, Contains(problem));
}

// But for what the process used.
json without_use(json document) {
  for (const char* field : {"cpu_s", "wall_s", "peak_rss_bytes"}) document.erase(field);
  return document;
}

}  // namespace

TEST_CASE("the plans of a search are ranked, and each is what simulate makes of its choices") {
  for (const std::string& task : {kTask, kTask + "--software none --precision fp32 "}) {
    const json document = planned(task);
    const json& plans = document.at("plans");
    REQUIRE(!plans.empty());
    double last = 0;
    for (const json& plan : plans) {
      const std::string choices = plan.at("choices");
      const auto alone =
          json::parse(run_program("simulate --json" + task + "--plan '" + choices + "'").out);
      CAPTURE(choices);
      CHECK(plan.at("report") == alone.at("report"));  // to the bit
      CHECK(plan.at("report").at("fits") == "yes");
      CHECK(plan.at("bound_s").get<double>() <= step_of(plan) * (1 + 1e-12));
      CHECK(plan.at("gap").get<double>() ==
            Approx(1 - plan.at("bound_s").get<double>() / step_of(plan)).margin(1e-12));
      CHECK(step_of(plan) >= last);
      last = step_of(plan);
    }
  }
}

TEST_CASE("the document of a search has the fields that scripts rely on") {
  const json document = planned(kTask + "--all");
  const double best = step_of(document.at("plans")[0]);
  CHECK(document.at("bound_s").get<double>() <= best);
  CHECK(document.at("gap").get<double>() ==
        Approx(1 - document.at("bound_s").get<double>() / best).margin(1e-9));
  CHECK(document.at("gap").get<double>() <= 0.01);
  CHECK(document.at("complete") == true);
  CHECK(document.at("space").contains("tp"));
  CHECK(document.at("space_size").get<double>() > 100);
  for (const char* count :
       {"tuples", "bounded", "pruned_by_memory", "pruned_by_bound", "simulated", "close"}) {
    CHECK(document.at("counts").at(count).get<int>() >= 0);
  }
  CHECK(document.at("software") == "megatron-core");
  CHECK(document.at("precision") == "bf16");
  CHECK(document.at("model").at("hash") ==
        document.at("plans")[0].at("plan").at("model").at("hash"));
  CHECK(document.at("cluster").at("hash").is_string());
  CHECK(document.at("profile_hash").is_null());
  for (const char* use : {"cpu_s", "wall_s", "peak_rss_bytes"}) {
    CHECK(document.at(use).get<double>() > 0);
  }
  const json& candidates = document.at("candidates");
  CHECK(!candidates.empty());
  CHECK(document.at("candidates_capped") == false);
  for (const json& candidate : candidates) {
    CHECK(candidate.at("bound_s").get<double>() > 0);
    CHECK(candidate.at("fate").is_string());
  }
  CHECK_FALSE(planned(kTask).contains("candidates"));
}

TEST_CASE("the same question has the same answer on any number of threads") {
  const json one = planned(kTask + "--threads 1"), two = planned(kTask + "--threads 2");
  CHECK(without_use(one) == without_use(two));
  CHECK(without_use(one) == without_use(planned(kTask + "--threads 8")));
}

TEST_CASE("a saved plan is simulated to the bit, and pinning its choices finds it again") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "best.json").string();
  const json best = planned(kTask + "--gap 0 --save " + file).at("plans")[0];
  const json saved = json::parse(
      run_program("simulate --json --model gpt2-tiny --cluster h100:2x2 --plan " + file).out);
  CHECK(saved.at("report") == best.at("report"));
  const json again =
      planned(kTask + "--gap 0 --pin '" + best.at("choices").get<std::string>() + "'");
  CHECK(again.at("plans")[0] == best);
}

TEST_CASE("pins and forbids are kept, and never make a plan faster") {
  const double best = step_of(planned(kTask + "--gap 0").at("plans")[0]);
  const json pinned = planned(kTask + "--gap 0 --pin tp=2,pp=2 --pin microbatch=2").at("plans");
  for (const json& plan : pinned) {
    CHECK_THAT(plan.at("choices").get<std::string>(),
               Contains("tp=2,pp=2") && Contains("microbatch=2"));
  }
  CHECK(step_of(pinned[0]) >= best);
  const json forbidden =
      planned(kTask + "--gap 0 --pin dp=4 --forbid zero --forbid microbatch=1").at("plans");
  for (const json& plan : forbidden) {
    CHECK_THAT(plan.at("choices").get<std::string>(),
               !Contains("zero=") && !Contains("microbatch=1,") && Contains("dp=4"));
  }
  CHECK(step_of(forbidden[0]) >= best);
}

TEST_CASE("the space that is shown has what pins and forbids leave of each key") {
  const std::string forbids =
      "--pin pp=1 --forbid zero=2,tp=2,bucket='100 MiB',tensor=2d --forbid offload,schedule";
  const json space = planned(kTask + forbids).at("space");
  using Values = std::vector<std::string>;
  CHECK(space.at("pp") == Values{"1"});
  CHECK(space.at("zero") == Values{"0", "1", "3"});
  CHECK(space.at("tp") == Values{"1 to 4", "but not 2"});
  CHECK(space.at("bucket") == Values{"25 MiB", "400 MiB", "1600 MiB"});
  CHECK(space.at("tensor") == Values{"1d", "2d and 3d with zero=0 and 1", "but not 2d"});
  CHECK(space.at("offload") == Values{"none"});
  CHECK(space.at("schedule") == Values{"1f1b"});
  CHECK_THAT(run_program("plan" + kTask + forbids).out, Contains("zero 0, 1, 3;"));
}

TEST_CASE("a wide search also has what others leave out, says so, and is no worse") {
  const std::string task = kTask + "--gap 0 --pin microbatch=2,bucket='25 MiB' --forbid offload ";
  const json usual = planned(task), wide = planned(task + "--wide");
  CHECK(usual.at("wide") == false);
  CHECK(wide.at("wide") == true);
  CHECK(wide.at("space_size") > usual.at("space_size"));
  const auto has = [](const json& document, const char* key, const char* value) {
    return document.at("space").at(key).dump().find(value) != std::string::npos;
  };
  CHECK(has(wide, "context", "rsa"));
  CHECK_FALSE(has(usual, "context", "rsa"));
  CHECK(has(wide, "recompute", "products"));
  CHECK(step_of(wide.at("plans")[0]) <= step_of(usual.at("plans")[0]));
  CHECK_THAT(run_program("plan " + task + "--wide").out, Contains("--wide"));
  // All parts of this sequence are of fewer tokens than are worth a device.
  const json cut = planned(kTask + "--wide --pin cp=2,context=rsa,dp=1,tp=1 --forbid offload");
  CHECK_THAT(cut.at("plans")[0].at("choices").get<std::string>(), Contains("context=rsa"));
}

TEST_CASE("less memory is never faster, and what fits has five percent to spare") {
  const double all = step_of(planned(kLarge).at("plans")[0]);
  const json tight = planned(kLarge + "--max-memory '60 GiB'");
  const json& report = tight.at("plans")[0].at("report");
  CHECK(report.at("step_s").get<double>() >= all * 0.99);
  for (const json& device : report.at("devices")) {
    CHECK(device.at("needed_bytes").get<double>() <= 0.95 * 60 * (std::int64_t{1} << 30));
  }
  CHECK_THAT(run_program("plan" + kLarge + "--max-memory '60 GiB'").out,
             Contains("at most 60 GiB of each device"));
}

TEST_CASE("text starts with what was asked, then plans, proof and space") {
  const std::string text =
      run_program("plan" + kTask + "--pin dp=2 --tokens 1B --price-per-hour 2").out;
  std::size_t at = 0;
  for (const char* part :
       {"gpt2-tiny on h100:2x2: 4 devices, bf16, global batch 8, sequence 64\n",
        "software megatron-core (chosen for h100-sxm; --software list shows others)\n",
        "wanted: the shortest step; pinned: dp=2\n", "step ", "tokens/s/device", "MFU", "to spare",
        "days", "$", "\n1 ", "the first: dp=2,", "Proven: ", "Searched: ", "Space: "}) {
    CAPTURE(part, text);
    const auto found = text.find(part, at);
    REQUIRE(found != std::string::npos);
    at = found;
  }
  const std::string alone = " --model gpt2-tiny --cluster h100:1x1 --global-batch 8 --seq 64";
  CHECK_THAT(run_program("plan" + alone).out, Contains("gpt2-tiny on h100:1x1: 1 device, bf16"));
}

TEST_CASE("where nothing fits, the nearest is named and what would help") {
  const std::string options =
      "plan --model llama3-8b --cluster h100:1x1 --global-batch 4 --seq 4096 --forbid offload ";
  const ProgramOutput text = run_program(options);
  CHECK(text.exit_code == 10);
  CHECK_THAT(text.out, Contains("Nothing fits.\nThe nearest is") && Contains(" would do.") &&
                           Contains("would fit"));
  CHECK_THAT(text.err, Contains("no plan fits"));
  const ProgramOutput output = run_program(options + "--json");
  CHECK(output.exit_code == 10);
  const json document = json::parse(output.out);
  CHECK(document.at("plans").empty());
  CHECK(document.at("gap").is_null());
  const json& nearest = document.at("nearest");
  CHECK(nearest.at("needs_bytes") > nearest.at("capacity_bytes"));
  CHECK(nearest.at("choices").is_string());
  bool more_nodes = false;
  for (const json& remedy : document.at("would_fit")) {
    more_nodes = more_nodes || remedy.at("change").get<std::string>().starts_with("on ");
    CHECK(remedy.at("step_s").get<double>() > 0);
  }
  CHECK(more_nodes);
  CHECK(json::parse(output.err).at("exit_code") == 10);
}

TEST_CASE("what would help is true: simulate says so of the choices that are named") {
  const std::string task = " --model gpt3-1.3b --global-batch 16";
  const json document = json::parse(
      run_program("plan --json" + task +
                  " --cluster h100:1x2 --seq 2048 --max-memory '9 GiB' --pin pp=1 --forbid offload")
          .out);
  CHECK(document.at("plans").empty());
  std::set<std::string> changes;
  for (const json& remedy : document.at("would_fit")) {
    const std::string change = remedy.at("change");
    changes.insert(change);
    const bool nodes = change.starts_with("on "), shorter = change.starts_with("with --seq ");
    const std::string there = nodes ? change.substr(3, change.find(' ', 3) - 3) : "1";
    const std::string sequence = shorter ? change.substr(11) : "2048";
    CAPTURE(change);
    const json report =
        json::parse(run_program("simulate --json" + task + " --cluster h100:" + there +
                                "x2 --seq " + sequence + " --plan '" +
                                remedy.at("choices").get<std::string>() + "'")
                        .out)
            .at("report");
    CHECK(report.at("step_s") == remedy.at("step_s"));
    double needed = 0;
    for (const json& device : report.at("devices")) {
      needed = std::max(needed, device.at("needed_bytes").get<double>());
    }
    CHECK(needed == remedy.at("needs_bytes").get<double>());
    const double all = change == "without --max-memory" ? 80 : 9;
    CHECK(needed <= 0.95 * all * (std::int64_t{1} << 30));
  }
  for (const char* change : {"without --max-memory", "without --forbid offload"}) {
    CHECK(changes.contains(change));
  }
}

TEST_CASE("stopped early it prints the best so far, and the exit code says so") {
  const std::string options =
      "plan --model llama3-70b --cluster h100:64x8 --global-batch 1024 "
      "--seq 8192 --gap 0 --wide --time-limit 1 --json";
  const ProgramOutput output = run_program(options);
  CHECK(output.exit_code == 11);
  const json document = json::parse(output.out);
  CHECK(document.at("complete") == false);
  CHECK(document.at("stopped") == true);
  CHECK_THAT(json::parse(output.err).at("error").get<std::string>(), Contains("stopped early"));
  const ProgramOutput interrupted = run_program(
      "plan --model llama3-70b --cluster h100:64x8 --global-batch 1024 --seq 8192 --gap 0 --wide",
      "timeout --foreground --preserve-status --signal INT 1 ");
  CHECK(interrupted.exit_code == 11);
  CHECK_THAT(interrupted.out, Contains("Stopped early"));
}

// Each step of it has thousands of values, and how many plans there are takes long to count.
TEST_CASE("a search of very many values ends soon after its time limit") {
  const auto start = std::chrono::steady_clock::now();
  const ProgramOutput output = run_program(
      "plan --model llama3-8b --cluster h100:2048x8 --global-batch 14414400 --seq 8192 --wide "
      "--time-limit 1 --json");
  CHECK(output.exit_code == 11);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  const json document = json::parse(output.out);
  CHECK(document.at("complete") == false);
  CHECK(document.at("space_size").is_null());
  check_refused("--model gpt2 --cluster h100 --global-batch 1000000000000 --seq 1024", 2,
                "--global-batch 1000000000000: expected at most 16777216 samples; a batch given in "
                "tokens is to be divided by the sequence");
}

TEST_CASE("deadlines and objectives") {
  const std::string tokens = kTask + "--tokens 1T ";
  const json devices = planned(tokens + "--objective devices --deadline '3000 days'");
  const double longest = 3000. * 86400 * 8 * 64 / 1e12;
  CHECK(devices.at("longest_step_s").get<double>() == Approx(longest));
  CHECK(step_of(devices.at("plans")[0]) <= longest);
  CHECK(devices.at("plans")[0].at("report").at("days").get<double>() <= 3000);
  const ProgramOutput late = run_program("plan --json" + tokens + "--deadline 1d");
  CHECK(late.exit_code == 10);
  CHECK(json::parse(late.out).at("fastest").at("step_s").get<double>() > 86400. * 8 * 64 / 1e12);
  CHECK_THAT(run_program("plan" + tokens + "--deadline 1d").out,
             Contains("No plan meets the deadline: a step may take 44.24 us"));
  CHECK_THAT(run_program("plan" + tokens + "--deadline '1 day'").out,
             Contains("a step may take 44.24 us"));
  // So close to it that more nodes are in time.
  const json fastest = json::parse(late.out).at("fastest");
  const double step = fastest.at("step_s").get<double>();
  const std::string days = std::to_string(step * 0.95 * 1e12 / (8 * 64) / 86400) + "d";
  const ProgramOutput close = run_program("plan --json" + tokens + "--deadline " + days);
  CHECK(close.exit_code == 10);
  for (const json& remedy : json::parse(close.out).value("in_time", json::array())) {
    CHECK_THAT(remedy.at("change").get<std::string>(), Contains("nodes instead of"));
    CHECK(remedy.at("step_s").get<double>() <= 0.95 * step);
  }
  const auto per_device = [](const json& document) {
    return document.at("plans")[0].at("report").at("tokens_per_s_per_device").get<double>();
  };
  // Of plans with as few devices the fastest, also where there is no deadline.
  const json fewest = planned(kTask + "--objective devices --gap 0").at("plans")[0];
  const json alone = planned(kTask + "--pin dp=1,tp=1,pp=1,cp=1 --gap 0").at("plans")[0];
  CHECK(fewest.at("report").at("step_s") == alone.at("report").at("step_s"));
  CHECK(per_device(planned(kTask + "--objective tokens-per-device --gap 0")) >=
        per_device(planned(kTask + "--gap 0")));
  CHECK(planned(kTask + "--objective money --gap 0").at("plans")[0] ==
        planned(kTask + "--objective tokens-per-device --gap 0").at("plans")[0]);
}

TEST_CASE("the front has less memory and more time from point to point") {
  const json front = planned(kTask + "--pareto --pin dp=4").at("pareto");
  REQUIRE(!front.empty());
  for (std::size_t i = 1; i < front.size(); ++i) {
    CHECK(front[i].at("needed_bytes") < front[i - 1].at("needed_bytes"));
    CHECK(front[i].at("step_s") > front[i - 1].at("step_s"));
  }
  CHECK_THAT(run_program("plan" + kTask + "--pareto --pin dp=4").out,
             Contains("Time against memory: "));
}

TEST_CASE("a plan for the executor runs") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "best.json").string();
  const json document = planned(
      "--model gpt2-tiny --cluster h100:1x2 --global-batch 4 --seq 16 "
      "--pin dp=2 --target executor --save " +
      file);
  CHECK(document.at("precision") == "fp32");
  CHECK(document.at("software") == "meshwright");
  CHECK(run_program("run --model gpt2-tiny --steps 1 --quiet --plan " + file).exit_code == 0);
  check_refused(kTask + "--target executor --precision fp8", 2,
                "runs fp64, fp32, bf16 and fp16, not fp8");
  check_refused(kTask + "--target megatron", 2, "--target megatron: expected megatron-lm, ");
}

TEST_CASE("what cannot be asked is refused in words") {
  check_refused("--model gpt2-tiny --cluster h100", 2, "--global-batch is required");
  check_refused(kTask + "--pin tp=2,pp=4", 2,
                "--pin tp=2, pp=4: dp x tp x pp = 8 devices, but the cluster has 4 (without --pin "
                "tp=2: dp=");
  check_refused(kTask + "--pin dp=3", 2, "a global batch of 8 cannot be cut into dp=3");
  check_refused(
      " --model gpt2 --cluster h100:2x8 --global-batch 12 --seq 64 --pin dp=12,place=dp:3", 2,
      "place=dp:3: 4 nodes with 3 devices each, but the cluster has 2");
  const std::string cut = " --model gpt2 --cluster h100:2x8 --global-batch 16 --seq 64 ";
  check_refused(cut + "--pin pp=16", 2, "pp=16: the model has 12 repeated blocks to cut at");
  check_refused(cut + "--pin pp=2,layers=3+3", 2, "layers=3+3: the model has 12");
  check_refused(kTask + "--pin summa=true,tensor=1d", 2, "summa=true: ");
  check_refused(kTask + "--pin tp", 2, "--pin tp: expected a key with a value such as tp=8");
  check_refused(kTask + "--pin tp=two", 2, "tp: expected a whole number");
  check_refused(kTask + "--pin horse=2", 2, "--pin horse=2: unknown key \"horse\"");
  check_refused(kTask + "--pin tp=2 --pin tp=4", 2, "--pin tp=2,tp=4: tp is given twice");
  check_refused(
      kTask + "--pin recompute=drop:horse", 2,
      "--pin recompute=drop:horse: recompute=drop:horse: no layer has a tensor \"horse\"");
  check_refused(kTask + "--pin shard=3", 2, "shard=3: it does not divide dp=");
  check_refused(kTask + "--pin depth=2", 2, "--pin depth=2: depth: only tensor=2.5d has layers");
  const std::string dense = " --model gpt2 --cluster h100:2x8 --global-batch 32 --seq 1024 ";
  for (const auto& [options, why] : std::vector<std::pair<const char*, const char*>>{
           {"--pin ep=2,tp=2", "--pin ep=2: ep=2: the model has no experts (without"},
           {"--pin inner_ring=2", "--pin inner_ring=2: inner_ring=2: only context=double-ring has"},
           {"--pin zero=3 --forbid zero",
            "--pin zero=3 --forbid zero: what is pinned is forbidden"},
           {"--forbid dp=1,dp=2,dp=4 --forbid dp=8,dp=16",
            "--forbid dp=1, dp=2, dp=4, dp=8, dp=16: that leaves no value of dp that is searched"},
           {"--pin schedule=interleaved,pp=1,tp=2",
            "--pin schedule=interleaved, pp=1: stages take turns with their chunks, and pp=1 has "
            "no"},
           {"--pin tensor=2d,microbatch=1",
            "tensor=2d: its 2 rows of devices do not divide a micro-batch of 1"},
           {"--pin sequence_parallel=true,tensor=2d", "tensor=2d cuts what lies between products"},
           {"--pin place=tp:16", "place=tp:16: 16 devices of a node, which has 8"},
           {"--pin place=tp:4+dp:4", "place=tp:4+dp:4: 16 devices of a node, which has 8"},
           {"--pin shard=32", "= 32 devices, but the cluster has 16"},
           {"--pin rerun_all=false", "--pin rerun_all=false: what is searched computes chosen"},
           {"--pin rerun_all=false,recompute=none", "it goes with a pin recompute=selective, "},
           {"--pin prefetch=2,zero=1",
            "--pin prefetch=2: only zero=3 gathers weights, and zero is"},
           {"--pin reshard=false,zero=0", "--pin reshard=false: only zero=3 gathers weights"},
           {"--pin shard=4,zero=0", "--pin shard=4: zero=0 shares no state out, and is pinned"},
           {"--pin imbalance=2", "--pin imbalance=2: the model has no experts"},
           {"--pin gradients=fp64,tp=2",
            "--pin gradients=fp64: gradients in fp64: expected fp32"}}) {
    check_refused(dense + options, 2, why);
  }
  check_refused("--model mixtral-8x7b --cluster h100:2x8 --global-batch 32 --seq 4096 --pin ep=3",
                2, "--pin ep=3: ep=3: it does not divide the 8 experts");
  for (const char* kept : {"--pin rerun_all=false,recompute=full", "--pin prefetch=2,zero=3"}) {
    const json plan = planned(dense + kept).at("plans")[0];
    CHECK_THAT(plan.at("choices").get<std::string>(),
               Contains("rerun_all=false") || Contains("prefetch=2"));
  }
  // Parts of the sequence are searched where only they have what is pinned.
  CHECK_THAT(run_program("plan" + dense + "--pin context=rsa").out, Contains("context=rsa"));
  check_refused(kTask + "--all", 2, "--all: needs --json");
  check_refused(kTask + "--forbid horse", 2,
                "--forbid horse: expected a key that is searched: dp, tp, ");
  check_refused(kTask + "--forbid zero=9", 2, "--forbid zero=9: zero: expected a whole number");
  check_refused(kTask + "--forbid recompute=drop:horse", 2, "no layer has a tensor \"horse\"");
  check_refused(kTask + "--forbid zero=", 2, "--forbid zero=: expected a key such as offload");
  check_refused(kTask + "--max-memory much", 2, "--max-memory much: expected a size such as");
  check_refused(kTask + "--deadline 2030-01-01", 2, "--deadline: needs --tokens");
  check_refused(kTask + "--tokens 1T --deadline tomorrow", 2,
                "--deadline tomorrow: expected a day");
  check_refused(kTask + "--tokens 1T --deadline 2020-01-01", 2, "--deadline 2020-01-01: is over");
  check_refused(kTask + "--objective speed", 2, "--objective");
  check_refused(kTask + "--save /dev/null/x", 44, "/dev/null/x");
}

}  // namespace meshwright
