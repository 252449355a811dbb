#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/cli/run_program.h"

namespace meshwright {
namespace {

using Catch::Contains;
using nlohmann::json;

const std::string kSmall =
    "simulate --model gpt2-tiny --cluster h100 --global-batch 8 --seq 64 --plan ";

void check_error(const std::string& arguments, int exit_code, const std::string& problem) {
  const ProgramOutput output = run_program(arguments);
  CAPTURE(arguments, output.err);
  CHECK(output.exit_code == exit_code);
  CHECK(output.out.empty());
  CHECK_THAT(output.err, Contains(problem));
}

std::string read_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

}  // namespace

TEST_CASE("a model whose file has a name that is not UTF-8 is planned, saved and run") {
  const TemporaryFolder folder;
  const auto model = (folder.path() / "caf\xe9.json").string();
  const auto plan = (folder.path() / "pl\xe4n").string();
  std::filesystem::copy(std::filesystem::path(MESHWRIGHT_DATA) / "models/gpt2-tiny.json", model);
  const std::string given = " --model '" + model + "' --seq 16 --plan ";
  const std::string ours = "--precision fp32 --software none ";  // what `run` runs
  REQUIRE(run_program("simulate --cluster h100 " + ours + given + "dp=2 --save-plan '" + plan + "'")
              .exit_code == 0);
  CHECK(run_program("simulate --cluster h100" + given + "'" + plan + "' --json").exit_code == 0);
  CHECK(run_program("run --steps 1" + given + "'" + plan + "'").exit_code == 0);
}

TEST_CASE("simulate reports the fields that scripts rely on, and its parts add up") {
  const ProgramOutput output = run_program(kSmall + "dp=2,tp=2,pp=2,zero=1 --json");
  REQUIRE(output.exit_code == 0);
  const json document = json::parse(output.out);
  const json& report = document.at("report");
  double parts = 0;
  for (const auto& [name, seconds] : report.at("parts_s").items()) parts += seconds.get<double>();
  CHECK(parts == Approx(report.at("step_s").get<double>()).epsilon(1e-9));
  CHECK(report.at("tokens_per_s").get<double>() ==
        Approx(8 * 64 / report.at("step_s").get<double>()));
  for (const char* field : {"mfu", "hfu", "bubble", "capacity_bytes"})
    CHECK(report.contains(field));
  CHECK(report.at("fits") == "yes");
  std::int64_t devices = 0;
  for (const json& entry : report.at("devices")) devices += entry.at("count").get<std::int64_t>();
  CHECK(devices == 8);
  const json& device = report.at("devices")[0];
  std::int64_t bytes = 0;
  for (const auto& [name, part] : device.at("by_component").items()) {
    bytes += part.get<std::int64_t>();
  }
  CHECK(bytes == device.at("peak_bytes"));
  CHECK(document.at("plan").at("model").at("name") == "gpt2-tiny");
}

TEST_CASE("the text starts with what was asked and whether it fits, before any speed") {
  const std::string text = run_program(kSmall + "dp=2,tp=2").out;
  std::size_t at = 0;
  for (const char* part :
       {"gpt2-tiny on h100: 4 of 8 devices, bf16, global batch 8, sequence 64\n",
        "plan dp=2,tp=2: 4 micro-batches of 1\n",
        "software megatron-core, kernels eager (chosen for h100-sxm; --software list shows others)",
        "fits, ", "the fullest, needs ", "\nstep ", " tokens/s/device, ",
        " TFLOP/s/device\nMFU "}) {
    CAPTURE(part, text);
    const auto found = text.find(part, at);
    REQUIRE(found != std::string::npos);
    at = found;
  }
}

TEST_CASE("precision and software are what such devices are used with, and JSON has every choice") {
  const auto asked = [](const std::string& cluster, const std::string& more = "") {
    return json::parse(run_program("simulate --model gpt2-tiny --plan dp=2,zero=1 --seq 64 --json "
                                   "--cluster " +
                                   cluster + more)
                           .out);
  };
  const json h100 = asked("h100"), v100 = asked("v100");
  CHECK(h100.at("plan").at("precision") == "bf16");
  CHECK(h100.at("software") == "megatron-core");
  CHECK(h100.at("software_chosen") == true);
  CHECK(v100.at("plan").at("precision") == "fp16");
  CHECK(v100.at("software") == "megatron-lm");
  const json given = asked("h100", " --precision fp32 --software fsdp");
  CHECK(given.at("plan").at("precision") == "fp32");
  CHECK(given.at("software") == "fsdp");
  CHECK(given.at("software_chosen") == false);
  CHECK(given.at("choices") == "dp=2,zero=1");
  CHECK(given.at("plan").at("devices") == 2);
  CHECK(given.at("plan").at("devices_there") == 8);
  for (const char* choice : {"micro_batch", "gradient_precision", "kernels", "zero", "bucket_bytes",
                             "overlap_gradients", "prefetch", "reshard", "offload_optimizer"}) {
    CHECK(given.at("plan").contains(choice));
  }
  const json& report = given.at("report");
  CHECK(report.at("tokens_per_s_per_device").get<double>() ==
        Approx(report.at("tokens_per_s").get<double>() / 2));
  CHECK(report.at("flops_per_s_per_device").get<double>() ==
        Approx(report.at("model_flops").get<double>() / report.at("step_s").get<double>() / 2));
  CHECK(asked("h100", " --software none").at("plan").at("kernels") == "executor");
}

TEST_CASE("tokens give days, and with a price money") {
  const std::string plan = kSmall + "dp=2 --json --tokens 15T ";
  const json report = json::parse(run_program(plan + "--price-per-hour 2.5").out).at("report");
  const double days = 15e12 / report.at("tokens_per_s").get<double>() / 86400;
  CHECK(report.at("days").get<double>() == Approx(days));
  CHECK(report.at("cost").get<double>() == Approx(days * 24 * 2.5 * 2));
  CHECK(!json::parse(run_program(kSmall + "dp=2 --json").out).at("report").contains("days"));
  CHECK_THAT(run_program(kSmall + "dp=2 --tokens 300B --price-per-hour '2 $/h'").out,
             Contains(" tokens: ") && Contains(" days, ") && Contains(" at 2 $/h for each of 2"));
  check_error(kSmall + "dp=2 --tokens many", 2, "--tokens many: expected a number such as 300B");
  check_error(kSmall + "dp=2 --tokens 15Tx", 2, "--tokens 15Tx: expected");
  check_error(kSmall + "dp=2 --tokens inf", 2, "--tokens inf: expected");
  check_error(kSmall + "dp=2 --tokens 1B --price-per-hour cheap", 2, "--price-per-hour cheap: exp");
  check_error(kSmall + "dp=2 --price-per-hour 2", 2, "--price-per-hour: needs --tokens");
  // Half an interval of 30 minutes and 10 minutes to restart; 2 of the 8 devices fail 6 times a
  // day.
  const json failing =
      json::parse(run_program(plan + "--price-per-hour 2.5 --failures-per-day 24").out)
          .at("report");
  const double expected = days / (1 - 6 * 25. / (24 * 60));
  CHECK(failing.at("days").get<double>() == Approx(expected));
  CHECK(failing.at("cost").get<double>() == Approx(expected * 24 * 2.5 * 2));
  CHECK_THAT(run_program(kSmall + "dp=2 --tokens 1B --failures-per-day 1000").out,
             Contains("tokens: never, with so many failures"));
  check_error(kSmall + "dp=2 --failures-per-day 1", 2, "--failures-per-day: needs --tokens");
}

TEST_CASE("several plans are one table, each as it is alone") {
  const std::string plans = kSmall + "dp=2 --plan tp=2,microbatch=2 --plan pp=9 ";
  const json table = json::parse(run_program(plans + "--json").out).at("plans");
  REQUIRE(table.size() == 3);
  for (const json& one : table) {
    CAPTURE(one.at("choices"));
    const auto alone = run_program(kSmall + one.at("choices").get<std::string>() + " --json");
    if (one.contains("problem")) {
      CHECK(alone.exit_code == 2);
      continue;
    }
    CHECK(one.at("report") == json::parse(alone.out).at("report"));
    CHECK(one.at("plan") == json::parse(alone.out).at("plan"));
  }
  CHECK_THAT(table[2].at("problem").get<std::string>(), Contains("dp x tp x pp = 9 devices"));
  const std::string text = run_program(plans + "--tokens 1B").out;
  CHECK_THAT(text, Catch::StartsWith("gpt2-tiny on h100: 8 devices, bf16, sequence 64\nsoftware "));
  CHECK_THAT(text, Contains("tokens/s/device") && Contains("\ndp=2 ") &&
                       Contains("\ntp=2,microbatch=2 ") && Contains("days") &&
                       Contains("not possible\n  --plan pp=9: "));
  check_error(kSmall + "pp=9 --plan tp=9", 2, "--plan pp=9: ");
  check_error(kSmall + "dp=2 --plan tp=2 --explain", 2, "need one --plan");
}

TEST_CASE("the software there is, a line each") {
  const ProgramOutput output = run_program("simulate --software list");
  CHECK(output.exit_code == 0);
  for (const char* name : {"none", "megatron-lm", "megatron-core", "fsdp", "deepspeed"}) {
    CHECK_THAT("\n" + output.out, Contains("\n" + std::string(name) + " "));
  }
  check_error(kSmall + "dp=2 --software megatorn", 2,
              "--software megatorn: expected one of none, ");
}

TEST_CASE("a profile that knows nothing of the devices is said to") {
  CHECK_THAT(run_program(kSmall + "dp=2 --profile v100-sxm2").err,
             Contains("note: v100-sxm2 has no times of h100-sxm, so nothing is priced by it"));
  CHECK(run_program(kSmall + "dp=2 --profile h100-sxm").err.empty());
}

TEST_CASE("one device of each class and every device give the same report") {
  const std::string plan = kSmall + "dp=2,tp=2,pp=2 --json";
  const json some = json::parse(run_program(plan).out).at("report");
  const json all = json::parse(run_program(plan + " --all-devices").out).at("report");
  CHECK(all.at("devices").size() == 8);
  CHECK(some.at("devices").size() == 2);
  CHECK(some.at("step_s") == all.at("step_s"));
  CHECK(some.at("parts_s") == all.at("parts_s"));
  CHECK(some.at("mfu").get<double>() == Approx(all.at("mfu").get<double>()).epsilon(1e-12));
}

TEST_CASE("prices alone are never slower, a slow host always is") {
  const auto step = [](const std::string& options) {
    return json::parse(run_program(kSmall + "dp=2,tp=2,pp=2 --software none --json " + options).out)
        .at("report")
        .at("step_s")
        .get<double>();
  };
  CHECK(step("--alone") <= step("") * (1 + 1e-12));  // but for rounding
  CHECK(step("--dispatch \"1 ms\"") > 2 * step(""));
  check_error(kSmall + "dp=1 --dispatch 5", 2, "--dispatch 5: expected a time such as");
}

TEST_CASE("a software has its own prices, defaults and overheads, and the report says whose") {
  const auto document = [](const std::string& options) {
    return json::parse(run_program(kSmall + "dp=2,tp=2,pp=2 --json " + options).out);
  };
  const json plain = document("--software none"), megatron = document("--software megatron-lm"),
             deepspeed = document("--software megatron-deepspeed");
  CHECK(plain.at("software") == "none");
  CHECK(megatron.at("software") == "megatron-lm");
  // All devices of the preset have fits.
  CHECK(plain.at("prices").at("fitted").get<double>() == Approx(1));
  const auto number = [](const json& of, const char* field) {
    return of.at("report").at(field).get<double>();
  };
  CHECK(number(megatron, "step_s") > number(plain, "step_s"));
  CHECK(number(deepspeed, "step_s") == number(megatron, "step_s"));
  const auto peak = [](const json& of) {
    return of.at("report").at("devices")[0].at("peak_bytes").get<std::int64_t>();
  };
  CHECK(peak(deepspeed) > peak(megatron) + 3'000'000'000);  // of buckets
  // Copies to the host have a formula only.
  CHECK(json::parse(run_program(kSmall + "pp=2,recompute=full,offload=activations --json").out)
            .at("prices")
            .at("formula")
            .get<double>() > 0);
  check_error(kSmall + "dp=1 --software horse", 2,
              "--software horse: expected one of none, megatron-lm");
}

TEST_CASE("explain simulates the other choices and says what is not possible") {
  const ProgramOutput text = run_program(kSmall + "dp=2,tp=2,pp=2 --software none --explain");
  REQUIRE(text.exit_code == 0);
  CHECK_THAT(text.out, Contains("the price of each choice"));
  for (const char* knob :
       {"microbatch=2", "recompute=full", "offload=activations", "zero=3", "schedule=gpipe"}) {
    CHECK_THAT(text.out, Contains(knob));
  }
  const json document =
      json::parse(run_program(kSmall + "dp=2,tp=2,pp=2 --software none --explain --json").out);
  const double step = document.at("report").at("step_s").get<double>();
  bool recomputed = false;
  for (const json& knob : document.at("knobs")) {
    CHECK(knob.contains("problem") != knob.contains("step_s"));
    if (knob.at("instead") != "recompute=full") continue;
    recomputed = true;
    CHECK(knob.at("step_s").get<double>() > step);  // computing again takes time
    CHECK(knob.at("peak_bytes") <= document.at("report").at("devices")[0].at("peak_bytes"));
  }
  CHECK(recomputed);
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "plan.json").string();
  CHECK(run_program(kSmall + "dp=2 --save-plan " + file).exit_code == 0);
  check_error("simulate --model gpt2-tiny --cluster h100 --explain --plan " + file, 2,
              "expected a short form such as dp=2,tp=2, found a file");
}

TEST_CASE("offload moves memory to the host and costs copies") {
  const auto report = [](const std::string& plan) {
    return json::parse(run_program(kSmall + plan + " --software none --json").out).at("report");
  };
  const json kept = report("dp=2"), away = report("dp=2,offload=activations+optimizer");
  CHECK_FALSE(kept.contains("host"));
  const json& device = away.at("devices")[0];
  CHECK(device.at("peak_bytes") < kept.at("devices")[0].at("peak_bytes"));
  // Two equal devices in one node.
  CHECK(away.at("host").at("needed_bytes") == 2 * device.at("host_peak_bytes").get<double>());
  CHECK(device.at("to_host_bytes") == device.at("from_host_bytes"));
  CHECK(away.at("parts_s").contains("copy_to_host"));
  CHECK(kept.at("devices")[0].at("to_host_bytes") == 0);
  check_error(kSmall + "dp=1,offload=disk", 2,
              "offload: expected none, activations, activations:LAYERS, optimizer");
  check_error(kSmall + "''", 2, "--plan is empty: expected a short form");
}

TEST_CASE("a saved plan simulates and lowers as its short form does") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "plan.json").string();
  const std::string form = "dp=2,pp=2,microbatch=2";
  const std::string direct = run_program(kSmall + form + " --program").out;
  CHECK(run_program(kSmall + form + " --save-plan " + file).exit_code == 0);
  const std::string saved = "simulate --model gpt2-tiny --cluster h100 --plan " + file;
  CHECK(run_program(saved + " --program").out == direct);
  CHECK_THAT(direct, Contains("device 0\n"));
  CHECK_THAT(direct, Contains("matmul weight_gradient layers.0.attention.qkv"));
  CHECK_THAT(direct, Contains("send pipeline"));
  check_error(saved + " --seq 65", 2, "the plan has global batch 8, sequence 64, precision bf16");
  check_error("simulate --model gpt2 --cluster h100 --plan " + file, 20,
              "the plan was made for another model: gpt2-tiny");
  CHECK(run_program("simulate --model llama3-8b --cluster h100 --global-batch 8 --seq 64 "
                    "--plan dp=4,tp=2 --save-plan " +
                    file)
            .exit_code == 0);
  check_error("simulate --model gpt2 --cluster h100 --plan " + file, 20,
              "the model has no kv_heads; the plan was made for llama3-8b");
}

TEST_CASE("the trace has named lanes and memory counters") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "trace.json";
  CHECK(run_program(kSmall + "pp=2 --trace " + file.string()).exit_code == 0);
  const json trace = json::parse(read_file(file));
  bool compute = false, counter = false;
  for (const json& event : trace.at("traceEvents")) {
    compute = compute || (event.at("ph") == "M" && event.at("args").value("name", "") == "compute");
    counter = counter || event.at("ph") == "C";
  }
  CHECK(compute);
  CHECK(counter);
}

TEST_CASE("what cannot be planned is refused with everything that is wrong") {
  check_error(kSmall + "dp=3,pp=8", 2,
              "--plan dp=3,pp=8: dp x tp x pp = 24 devices, but the cluster has 8; pp=8: the model "
              "has 4 repeated blocks to cut at; a global batch of 8 cannot be cut into dp=3 times "
              "micro-batches of 1");
  check_error("simulate --model gpt2-tiny --cluster h100 --plan dp=2 --global-batch 4194304", 2,
              "is 2097152 micro-batches a step, more than 4096");
  check_error("simulate --model llama3-8b --cluster h100:2x8 --plan tp=12 --seq 64", 2,
              "--plan tp=12: op layers.*.attention.q and 6 more: kv_heads is 8, which cannot be "
              "split over tp=12\n");
  check_error(kSmall + "dp=x", 2, "--plan: dp: expected a whole number");
  check_error(kSmall + "dp=1 --precision fp7", 2, "--precision fp7: expected bf16");
  check_error(kSmall + "missing.json", 20, "missing.json: cannot be read");
  check_error("simulate --model gpt2-tiny --plan dp=1", 2, "--cluster is required");
}

TEST_CASE("run trains the same losses under different plans and says what it predicted") {
  const std::string small =
      "run --model gpt2-tiny --global-batch 4 --seq 16 --steps 3 --precision fp64 --quiet --json "
      "--plan ";
  const json one = json::parse(run_program(small + "microbatch=4").out);
  REQUIRE(one.at("losses").size() == 3);
  for (const char* plan : {"dp=2,zero=1", "tp=2,microbatch=4", "pp=2", "dp=2,tp=2,pp=2",
                           "pp=2,offload=activations+optimizer"}) {
    CAPTURE(plan);
    const json other = json::parse(run_program(small + plan).out);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(other.at("losses")[i].get<double>() ==
            Approx(one.at("losses")[i].get<double>()).epsilon(1e-10));
    }
    CHECK(other.at("step_s").get<double>() > 0);
    CHECK(other.at("predicted_step_s").get<double>() > 0);
  }
}

TEST_CASE("run writes metrics, a line a step, and a trace of what it measured") {
  const TemporaryFolder folder;
  const auto metrics = folder.path() / "metrics.jsonl";
  const auto trace = folder.path() / "trace.json";
  const ProgramOutput output = run_program(
      "run --model gpt2-tiny --plan dp=2 --global-batch 2 --seq 16 --steps 2 --metrics " +
      metrics.string() + " --trace " + trace.string());
  CHECK(output.exit_code == 0);
  CHECK_THAT(output.out, Contains("predicted") && Contains("measured"));
  CHECK_THAT(output.err, Contains("step    1  loss "));
  std::istringstream lines(read_file(metrics));
  std::int64_t step = 0;
  for (std::string line; std::getline(lines, line); ++step) {
    const json entry = json::parse(line);
    CHECK(entry.at("step") == step);
    CHECK(entry.at("tokens") == 32);
    for (const char* field : {"loss", "step_s", "predicted_step_s", "grad_norm", "peak_bytes"}) {
      CHECK(entry.at(field).get<double>() > 0);
    }
  }
  CHECK(step == 2);
  CHECK(json::parse(read_file(trace)).at("traceEvents").size() > 10);
}

TEST_CASE(
    "run trains in 16 bits, and says what the loss was scaled by and which steps it skipped") {
  const std::string run = "run --model gpt2-tiny --plan dp=2 --global-batch 2 --seq 16 --steps 3";
  const auto loss = [&](const std::string& precision) {
    const ProgramOutput output = run_program(run + " --json --precision " + precision);
    REQUIRE(output.exit_code == 0);
    const json result = json::parse(output.out);
    CHECK(result.at("peak_bytes").get<double>() ==
          Approx(result.at("predicted_peak_bytes").get<double>()).epsilon(0.05));
    CHECK(result.contains("loss_scale") == (precision == "fp16"));
    return result.at("losses").at(2).get<double>();
  };
  // Half of the last place: 2^-9 and 2^-12 of a number.
  CHECK(loss("bf16") == Approx(loss("fp32")).epsilon(0x1p-9));
  CHECK(loss("fp16") == Approx(loss("fp32")).epsilon(0x1p-12));
  const TemporaryFolder folder;
  const std::string metrics = (folder.path() / "scaled.jsonl").string();
  const ProgramOutput large =
      run_program(run + " --precision fp16 --loss-scale 16777216 --metrics " + metrics);
  CHECK(large.exit_code == 0);
  CHECK_THAT(large.out, Contains("loss scale ") && Contains(" steps skipped"));
  CHECK_THAT(large.err, Contains("skipped: gradients overflow at a loss scale of 16777216"));
  const json first = json::parse(read_file(metrics).substr(0, read_file(metrics).find('\n')));
  CHECK(first.at("skipped") == true);
  CHECK(first.at("loss_scale") == 16777216);
  CHECK(first.at("grad_norm").is_null());
  check_error(run + " --precision bf16 --loss-scale 2", 2,
              "precision bf16: only the loss of fp16 is scaled");
  check_error(run + " --precision fp16 --loss-scale 3", 2,
              "--loss-scale 3: expected a power of 2 from 1 to 16777216");
}

TEST_CASE("run refuses what cannot run here, and a dry run starts nothing") {
  check_error("run --model gpt2-tiny --plan dp=1 --precision fp8 --seq 16", 2,
              "precision fp8: CPUs run fp64, fp32, bf16 and fp16");
  check_error("run --model gpt2-tiny --plan dp=512 --seq 16", 2,
              "512 devices; one process runs at most 256");
  check_error("run --model gpt2-tiny --plan dp=1 --seq 16 --metrics /none/x", 44, "/none/x");
  const ProgramOutput dry =
      run_program("run --model gpt2 --plan dp=4,tp=2,pp=2 --seq 128 --dry-run");
  CHECK(dry.exit_code == 0);
  CHECK_THAT(dry.out, Contains("16 devices in ") && Contains("predicted step"));
}

TEST_CASE("a precision that the device lacks is refused with those it has") {
  const auto refused = [](const std::string& cluster, const std::string& precision) {
    const ProgramOutput output =
        run_program("simulate --model gpt2-tiny --cluster " + cluster +
                    " --plan dp=1 --global-batch 1 --seq 16 --precision " + precision);
    CHECK(output.exit_code == 2);
    return output.err;
  };
  CHECK_THAT(
      refused("v100", "bf16"),
      Contains("--precision bf16: v100-sxm2 does not compute in it; it has fp64, fp32, fp16"));
  CHECK_THAT(refused("t4", "bf16"), Contains("--precision bf16: t4 does not compute in it"));
  CHECK_THAT(refused("a100-80", "fp8"), Contains("--precision fp8: a100-sxm-80"));
}

TEST_CASE("predictions in fp8 are called not validated, and no utilization exceeds 1") {
  const std::string asked =
      "simulate --model llama3.2-1b --cluster h100 --plan tp=8 --global-batch 1 --seq 131072 ";
  CHECK_THAT(run_program(asked + "--precision fp8").out, Contains("Not validated: 8-bit"));
  const auto wide = nlohmann::json::parse(run_program(asked + "--precision bf16 --json").out);
  CHECK(wide.at("validated") == true);
  CHECK(wide.at("report").at("mfu") <= 1);
  CHECK(wide.at("report").at("hfu") <= 1);
  // Attention over the full square would be more than there is time for.
  CHECK((wide.at("report").at("mfu_full_square").is_null() ||
         wide.at("report").at("mfu_full_square") <= 1));
}

}  // namespace meshwright
