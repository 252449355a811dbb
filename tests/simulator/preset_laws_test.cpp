#include <catch2/catch.hpp>

#include "costmodel/base/json_input.h"
#include "costmodel/cluster/cluster_name.h"
#include "costmodel/model/import/hugging_face.h"
#include "simulator/report/predict.h"
#include "tests/user_costs.h"

// What must hold of predictions on shipped presets, whatever their prices were fitted to.
namespace meshwright {
namespace {

// Two of the layers that Llama 3 8B has.
Model two_layers() {
  return make_model(read_hugging_face(JsonInput::parse(R"({
      "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
      "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8,
      "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192})",
                                                       "two layers"),
                                      "two layers"));
}

struct Preset {
  Model model = two_layers();
  Cluster cluster;
  Setting setting;

  explicit Preset(const std::string& name, const std::string& software = "megatron-core")
      : cluster(find_cluster(name, kShippedData)),
        setting(make_setting(model, cluster, shipped_software(software), shipped_fits())) {}
  Preset(const Preset&) = delete;

  Report report(const std::string& plan, const BatchChoice& batch) const {
    PlanChoices choices = parse_plan_choices(plan, choices_of(setting.defaults, batch.precision));
    const auto made = plan_of(choices, batch, setting);
    REQUIRE(std::holds_alternative<Plan>(made));
    return predict(std::get<Plan>(made), setting).report;
  }
  Seconds step(const std::string& plan, std::int64_t sequence) const {
    return report(plan, {.sequence = sequence, .precision = Precision::BF16}).step;
  }
};

}  // namespace

TEST_CASE("a longer sequence takes no less time") {
  // Where one more row of tiles fills a device better, products were measured to take up to a few
  // percent less.
  for (const char* name : {"a100-80", "h100", "h200", "gh200:8", "b200", "gb200-nvl72:2x4", "b300",
                           "gb300-nvl72:2x4", "mi300x"}) {
    const Preset preset(name);
    Seconds before;
    for (const std::int64_t sequence : {64, 80, 96, 128, 160, 256, 320, 512, 768}) {
      CAPTURE(name, sequence);
      const Seconds step = preset.step("tp=8", sequence);
      CHECK(step >= before * (std::string_view(name) == "gh200:8" ? 1 : 0.97));
      before = step;
    }
  }
}

TEST_CASE("a rack is not slower than a server with the same devices") {
  for (const auto& [rack, server] :
       {std::pair("gb200-nvl72:2x4", "b200"), std::pair("gb300-nvl72:2x4", "b300")}) {
    const Preset of_rack(rack), of_server(server);
    for (const std::int64_t sequence : {1024, 2048, 4096, 8192}) {
      CAPTURE(rack, sequence);
      CHECK(of_rack.step("tp=8", sequence) <= of_server.step("tp=8", sequence));
    }
  }
}

TEST_CASE("FSDP keeps 16 bytes for every weight that it shares out, not 18") {
  const Preset fsdp("h100", "fsdp"), deepspeed("h100", "deepspeed");
  const auto weights = [](const Preset& preset, const std::string& plan) {
    const BatchChoice batch{.global_batch = 8, .sequence = 256, .precision = Precision::BF16};
    const Report report = preset.report(plan, batch);
    return report.devices[0].by_component[static_cast<std::size_t>(Component::Weights)].value();
  };
  // Two embeddings of 128256 x 4096; layers of 4096 x (4096 + 2 x 1024 + 4096 + 3 x 14336) and two
  // norms; a norm.
  const std::int64_t parameters =
      2 * 128256 * 4096 + 2 * (4096 * (4096 + 2048 + 4096 + 3 * 14336) + 2 * 4096) + 4096;
  const std::string plan = "dp=8,zero=3,kernels=flash,bucket=400MiB";
  CHECK(weights(deepspeed, plan) - weights(fsdp, plan) == 2 * parameters / 8);
  CHECK(weights(deepspeed, "dp=8,zero=2") == weights(fsdp, "dp=8,zero=2"));
}

}  // namespace meshwright
