#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "simulator/choices/stage_axes.h"
#include "tests/bad_files.h"
#include "tests/export/export_bench.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

// What was exported, in the words of the short form, for a reader of what was written.
nlohmann::json facts_of(const PlanChoices& choices, const ExportSetting& setting) {
  const DecoderSpec& model = setting.decoder->spec;
  return {{"dp", choices.dp},
          {"tp", choices.tp},
          {"pp", choices.pp},
          {"cp", choices.cp},
          {"ring", context_degrees(choices).ring},
          {"rings", context_degrees(choices).rings},
          {"heads_shared", context_degrees(choices).heads},
          {"ep", choices.ep},
          {"etp", expert_tensor_degree(choices)},
          {"replicas", repeated_weights(choices)},
          {"microbatch", choices.microbatch},
          {"zero", repeated_weights(choices) > 1 ? choices.zero : 0},
          {"shard", choices.zero > 0 ? choices.shard.value_or(choices.dp) : choices.dp},
          {"sequence_parallel", choices.sequence_parallel && choices.tp > 1},
          {"schedule", to_text(choices.schedule)},
          {"virtual_stages", choices.virtual_stages},
          {"layers", layers_of_chunks(choices, model.layers)},
          {"recompute", to_text(choices.recompute)},
          {"offload", choices.offload_optimizer ? "optimizer" : "none"},
          {"overlap", choices.overlap},
          {"bucket_bytes", bucket_of(choices).value()},
          {"prefetch", choices.prefetch},
          {"gradients", to_text(choices.gradient_precision.value_or(Precision::FP32))},
          {"precision", to_text(setting.batch.precision)},
          {"global_batch", setting.batch.global_batch},
          {"sequence", setting.batch.sequence},
          {"nodes_devices", device_count(choices)},
          {"family", setting.decoder->family},
          {"model",
           {{"layers", model.layers},
            {"hidden", model.hidden},
            {"ffn", model.ffn},
            {"heads", model.heads},
            {"kv_heads", model.kv_heads},
            {"vocabulary", model.vocabulary},
            {"tied", model.tied},
            {"experts", model.experts ? model.experts->experts : 0}}}};
}

void write_case(const std::filesystem::path& folder, const ExportTarget& target,
                const PlanChoices& choices, const ExportSetting& setting) {
  std::filesystem::create_directories(folder);
  for (const ExportedFile& file : exported(target, choices, setting)) {
    const auto path = folder / file.name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << file.text;
  }
  nlohmann::json facts = facts_of(choices, setting);
  facts["target"] = target.name;
  facts["version"] = target.version;
  facts["choices"] = to_text(choices);
  std::ofstream(folder / "facts.json") << facts.dump(1);
}

std::vector<std::unique_ptr<ExportBench>> benches() {
  std::vector<std::unique_ptr<ExportBench>> all;
  all.push_back(std::make_unique<ExportBench>("llama3-8b", "h100:2x8"));
  all.push_back(
      std::make_unique<ExportBench>("gpt2", "a100-80:1x8", BatchChoice{32, 1024, Precision::FP16}));
  all.push_back(std::make_unique<ExportBench>("qwen2.5-7b", "h100:4x8"));
  all.push_back(std::make_unique<ExportBench>("llama2-70b", "h100:8x8",
                                              BatchChoice{256, 4096, Precision::BF16}));
  all.push_back(std::make_unique<ExportBench>("llama3.1-8b", "h100:2x8"));
  all.push_back(std::make_unique<ExportBench>("llama2-7b", "h100:1x8",
                                              BatchChoice{64, 2048, Precision::FP32}));
  all.push_back(std::make_unique<ExportBench>("mixtral-8x7b", "h100:4x8"));
  all.push_back(std::make_unique<ExportBench>("qwen3-30b-a3b", "h100:2x8"));
  return all;
}

}  // namespace

TEST_CASE("what is written reads back as the plan, in names that the target's version has") {
  const TemporaryFolder folder;
  const std::uint32_t seed = 7;
  CAPTURE(seed);
  AnyChoices random(seed);
  const auto all = benches();
  for (const ExportTarget& target : export_targets()) {
    int written = 0;
    for (int i = 0; written < cases(40, 10'000) && i < 100'000; ++i) {
      const ExportSetting& setting = all[static_cast<std::size_t>(i) % all.size()]->setting;
      const PlanChoices drawn = random.draw(setting, defaults_of(target, setting.batch.precision));
      for (const PlanChoices& choices : nearest_carried(target, drawn, setting)) {
        const std::string name = fmt::format("{}-{}-{}", target.name, target.version, ++written);
        write_case(folder.path() / name, target, choices, setting);
      }
    }
    INFO(target.name << " " << target.version);
    CHECK(written >= cases(40, 10'000));
  }
  const std::string command =
      fmt::format("python3 {}/export/check_files.py {} {} >&2", MESHWRIGHT_TESTS, MESHWRIGHT_DATA,
                  folder.path().string());
  CHECK(std::system(command.c_str()) == 0);
}

}  // namespace meshwright
