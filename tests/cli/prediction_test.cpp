#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "costmodel/cluster/cluster_hash.h"
#include "costmodel/cluster/cluster_name.h"
#include "simulator/validation/predict_run.h"
#include "simulator/validation/run_habits.h"
#include "simulator/validation/run_model.h"
#include "tests/cli/run_program.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

const std::filesystem::path kData = MESHWRIGHT_DATA;

std::string preset_of(const PublishedRun& run) {
  std::string name =
      run.gpu == "A100" ? (run.device_memory_gb == 40 ? "a100-40" : "a100-80") : run.gpu;
  for (char& c : name) c = static_cast<char>(std::tolower(c));
  if (name.starts_with("gb")) name += "-nvl72";
  const std::int64_t on_node = std::min(*run.devices, *run.devices_per_node);
  return fmt::format("{}:{}x{}", name, *run.devices / on_node, on_node);
}

// What a run says that no option of `simulate` does: which kernels it has that its software does
// not have by itself, how many own optimizer state, a cap on power, and links or memory that no
// preset has (a cluster file can say the last). Empty: nothing.
std::string unsayable(const PublishedRun& run, const RunPlan& plan, const Software& software) {
  if (plan.software.prices != software.prices) return "its attention, loss or compiled kernels";
  if (plan.software.memory != software.memory) return "whole 16-bit gradients beside fp32 ones";
  if (plan.clock_share != 1) return "a cap on power";
  if (plan.choices.zero > 0 && plan.optimizer_owners != plan.choices.dp * plan.choices.cp) {
    return "owners of optimizer state other than all replicas";
  }
  const std::string preset = preset_of(run);
  if (hash_of(find_cluster(preset, kData)) != hash_of(plan.cluster)) return "its own network";
  return "";
}

// From the columns of the row, in the words of a short form.
std::string short_form(const PublishedRun& run, const RunPlan& plan) {
  std::vector<std::string> parts = {fmt::format("dp={}", *run.dp), fmt::format("tp={}", *run.tp),
                                    fmt::format("pp={}", *run.pp),
                                    fmt::format("microbatch={}", *run.micro_batch)};
  if (run.cp.value_or(1) > 1) parts.push_back(fmt::format("cp={}", *run.cp));
  if (run.has_option("cp-a2a")) parts.push_back("context=ulysses");
  if (run.ep.value_or(1) > 1) parts.push_back(fmt::format("ep={}", *run.ep));
  if (run.zero.value_or(0) > 0) parts.push_back(fmt::format("zero={}", *run.zero));
  if (run.sequence_parallel.value_or(false) && *run.tp > 1) {
    parts.push_back("sequence_parallel=true");
  }
  if (run.vpp.value_or(1) > 1 && *run.pp > 1) {
    parts.push_back(fmt::format("schedule=interleaved,virtual_stages={}", *run.vpp));
  }
  if (run.recompute == "full") parts.push_back("recompute=full");
  if (run.recompute == "selective") {
    parts.push_back(plan.choices.recompute.kind == Recompute::Products ? "recompute=products"
                                                                       : "recompute=selective");
  }
  if (!plan.choices.layers.empty()) {
    parts.push_back(fmt::format("layers={}", fmt::join(run.stage_layers, "+")));
  }
  if (run.has_option("no-overlap")) parts.push_back("overlap=false");
  if (run.has_option("grad-fp32")) parts.push_back("gradients=fp32");
  if (run.has_option("grad-fp16")) parts.push_back("gradients=fp16");
  if (run.has_option("grad-bf16") || run.has_option("mp-pure")) {
    parts.push_back(fmt::format("gradients={}", *run.precision));
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

std::string arguments(const PublishedRun& run, const RunPlan& plan, const std::string& model) {
  return fmt::format(
      "simulate --model {} --cluster {} --plan {} --global-batch {} --seq {} --precision {} "
      "--software {} --json",
      model, preset_of(run), short_form(run, plan), *run.global_batch, *run.sequence,
      *run.precision, run.software);
}

}  // namespace

TEST_CASE("simulate says of a published run what validate scores, to the bit") {
  const auto software = read_software(kData / "software.json");
  const Fits fits = read_fits(kData / "fits.json");
  std::map<std::string, int> compared;  // by source
  for (const PublishedRun& run : read_runs(CsvInput::read(kData / "published" / "runs.csv"))) {
    const Software* named = find_software(software, run.software);
    if (!named || !run.heads || compared[source_of(run)] >= cases(2, 20)) continue;
    const auto expressed = express(run, software, kData);
    const auto* plan = std::get_if<RunPlan>(&expressed);
    if (!plan || !unsayable(run, *plan, *named).empty()) continue;
    const auto lowered = std::get<LoweredRun>(lower_run(*plan, fits));
    if (lowered.more) continue;  // a step that validate plays with fewer micro-batches
    CAPTURE(run.id);
    const RunPrediction scored = predict(lowered, fits);
    const TemporaryFolder folder;
    const std::string model = (folder.path() / "model.json").string();
    std::vector<std::string> assumed;
    const auto config = config_of(run, habits_of(named->name, kData).dropout, kData, assumed);
    std::ofstream(model) << std::get<RunConfig>(config).text;
    const ProgramOutput output = run_program(arguments(run, *plan, model));
    CAPTURE(output.err);
    REQUIRE(output.exit_code == 0);
    const auto report = nlohmann::json::parse(output.out).at("report");
    CHECK(report.at("step_s") == scored.step.value());
    std::int64_t needed = 0;
    for (const auto& device : report.at("devices")) {
      needed = std::max(needed, device.at("needed_bytes").get<std::int64_t>());
    }
    CHECK(needed == scored.driver.value());
    CHECK(report.at("fits") == to_text(scored.fits));
    ++compared[source_of(run)];
  }
  for (const char* source : {"kort", "sc21", "mpt", "stas", "vtrain-single"}) {
    CAPTURE(source);
    CHECK(compared[source] >= 2);
  }
}

}  // namespace meshwright
