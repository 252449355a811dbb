#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <set>

#include "costmodel/base/input_error.h"
#include "simulator/choices/stage_axes.h"
#include "tests/export/export_bench.h"
#include "tests/import/plan_examples.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

// What of a plan stands in words that the target's own file has no place for: scripts that are not
// configuration say it, or it follows from the model.
struct NotInFiles {
  std::string target;
  std::set<std::string> keys;
};
const std::vector<NotInFiles> kNotInFiles = {
    {"megatron-lm", {}},
    {"megatron-bridge", {}},
    {"deepspeed", {"recompute", "sequence"}},
    {"torchtitan", {"bucket", "prefetch"}},
    {"nanotron", {}},
    {"accelerate", {"bucket", "prefetch", "microbatch", "global_batch", "sequence"}},
    {"colossal-ai", {"global_batch"}},
};

std::vector<PlanFile> plan_files(const std::vector<ExportedFile>& exported,
                                 const std::string& target) {
  std::vector<PlanFile> files;
  for (const ExportedFile& file : exported) {
    const bool script = file.name == "train.py" && target != "colossal-ai";
    if (file.name.ends_with(".md") || file.name.ends_with("plan.json") || script ||
        file.name.starts_with("model/")) {
      continue;
    }
    files.push_back({file.name, file.text});
  }
  return files;
}

// Where every device of a plan stands.
std::vector<std::size_t> devices_of_plan(const PlanChoices& choices, const Cluster& cluster) {
  std::vector<std::size_t> devices;
  for (std::int64_t stage = 0; stage < choices.pp; ++stage) {
    for (std::int64_t replica = 0; replica < choices.dp; ++replica) {
      for (std::int64_t part = 0; part < choices.cp * choices.tp; ++part) {
        const PlanPlace place{stage, replica, part / choices.tp, part % choices.tp};
        devices.push_back(device_of(choices, cluster, place).index());
      }
    }
  }
  return devices;
}

// What a plan does, so that two ways to say it are equal: a bucket above all gradients is as good
// as a larger one, as many first layers of a chunk as it has are all of them, and what only
// replicas have does not matter without any.
std::map<std::string, std::string> meaning_of(const PlanChoices& choices,
                                              const ExportSetting& setting) {
  const bool replicas = repeated_weights(choices) > 1;
  const Bytes all = bytes_per_element(BufferElement::Real, setting.batch.precision) *
                    count_parameters(setting.model).total;
  // State that each replica has for itself is not shared out.
  const std::int64_t among = choices.shard.value_or(choices.dp);
  const bool shares = replicas && choices.zero > 0 && among * choices.cp > 1;
  const ContextDegrees context = context_degrees(choices);
  const bool gathers = shares && choices.zero == 3;
  const auto layers = layers_of_chunks(choices, setting.decoder->spec.layers);
  const bool all_layers = choices.recompute.kind == Recompute::First &&
                          choices.recompute.layers >= *std::ranges::max_element(layers);
  return {
      {"dp", std::to_string(choices.dp)},
      {"tp", std::to_string(choices.tp)},
      {"pp", std::to_string(choices.pp)},
      {"context", fmt::format("{} {} {}", context.rings, context.ring, context.heads)},
      {"experts", fmt::format("{} {}", choices.ep, expert_tensor_degree(choices))},
      {"devices", fmt::format("{}", fmt::join(devices_of_plan(choices, setting.cluster), " "))},
      {"microbatch", std::to_string(choices.microbatch)},
      {"zero", std::to_string(shares ? choices.zero : 0)},
      {"shard", std::to_string(shares ? among : choices.dp)},
      {"sequence_parallel", choices.sequence_parallel && choices.tp > 1 ? "true" : "false"},
      {"schedule", choices.pp > 1 ? std::string(to_text(choices.schedule)) : ""},
      {"layers", fmt::format("{}", fmt::join(layers, "+"))},
      {"recompute", to_text(all_layers ? RecomputeChoice{Recompute::Uniform} : choices.recompute)},
      {"offload", choices.offload_optimizer ? "optimizer" : "none"},
      {"overlap", replicas && choices.overlap ? "true" : "false"},
      {"bucket", replicas ? std::to_string(std::min(bucket_of(choices), all).value()) : ""},
      {"prefetch", gathers ? std::to_string(choices.prefetch) : ""},
      {"kernels", std::string(to_text(choices.kernels))},
      {"gradients", std::string(to_text(choices.gradient_precision.value_or(Precision::FP32)))}};
}

std::string lines_of_meaning(const std::map<std::string, std::string>& meaning) {
  std::string text;
  for (const auto& [key, value] : meaning) text += fmt::format("{} {}\n", key, value);
  return text;
}

std::string text_of(const std::vector<PlanFile>& files) {
  std::string text;
  for (const PlanFile& file : files) text += "--- " + file.source + "\n" + file.text;
  return text;
}

void check_read_back(const ExportTarget& target, const std::set<std::string>& skipped,
                     const PlanChoices& choices, const ExportSetting& setting) {
  const auto files = plan_files(exported(target, choices, setting), target.name);
  CAPTURE(target.name, target.version, to_text(choices), text_of(files));
  const PlanWishes wishes{.devices_per_node = setting.cluster.node_types.front().devices,
                          .layers = setting.decoder->spec.layers,
                          .microbatch = choices.microbatch};
  const ImportedPlan read = plan_from_files(files, wishes);
  auto written = meaning_of(choices, setting), back = meaning_of(read.choices, setting);
  for (const std::string& key : skipped) {
    written.erase(key);
    back.erase(key);
  }
  // Its FSDP reduces layer by layer.
  if (target.name == "megatron-lm" && choices.zero == 3) back["bucket"] = written["bucket"];
  CHECK(lines_of_meaning(back) == lines_of_meaning(written));
  CHECK(read.target == target.name);
  CHECK(read.unknown.empty());
  CHECK(read.software == target.software);
  CHECK(read.precision == setting.batch.precision);
  if (!skipped.contains("global_batch")) CHECK(read.global_batch == setting.batch.global_batch);
  if (!skipped.contains("sequence")) CHECK(read.sequence == setting.batch.sequence);
  // The short form is the same plan beside the software's defaults.
  CHECK(parse_plan_choices(read.choices_text, defaults_of(target, read.precision)) == read.choices);
}

}  // namespace

TEST_CASE("what was exported is imported as the same plan, in everything that files carry") {
  const std::uint32_t seed = 11;
  CAPTURE(seed);
  AnyChoices random(seed);
  std::vector<std::unique_ptr<ExportBench>> benches;
  benches.push_back(std::make_unique<ExportBench>("llama3.1-8b", "h100:2x8"));
  benches.push_back(
      std::make_unique<ExportBench>("gpt2", "a100-80:1x8", BatchChoice{32, 1024, Precision::FP16}));
  benches.push_back(std::make_unique<ExportBench>("llama2-70b", "h100:8x8",
                                                  BatchChoice{256, 4096, Precision::BF16}));
  benches.push_back(std::make_unique<ExportBench>("mixtral-8x7b", "h100:4x8"));
  benches.push_back(std::make_unique<ExportBench>("qwen3-30b-a3b", "h100:2x8"));
  for (const NotInFiles& entry : kNotInFiles) {
    for (const ExportTarget& target : export_targets()) {
      if (target.name != entry.target) continue;
      int done = 0;
      for (int i = 0; done < cases(40, 10'000) && i < 100'000; ++i) {
        const ExportSetting& setting =
            benches[static_cast<std::size_t>(i) % benches.size()]->setting;
        const PlanChoices drawn =
            random.draw(setting, defaults_of(target, setting.batch.precision));
        for (const PlanChoices& choices : nearest_carried(target, drawn, setting)) {
          check_read_back(target, entry.keys, choices, setting);
          ++done;
        }
      }
      CHECK(done >= cases(40, 10'000));
    }
  }
}

}  // namespace meshwright
