#include "costmodel/model/import/hugging_face.h"

#include <fmt/format.h>

#include "costmodel/model/import/config_reader.h"
#include "costmodel/model/import/decoder_spec.h"
#include "costmodel/model/import/encoder_graph.h"

namespace meshwright {
namespace {

constexpr std::string_view kSupported =
    "gpt2, gpt_neox, opt, bloom, llama, mistral, qwen2, qwen3, gemma, phi3, olmo2, granite, "
    "seed_oss, glm4, mixtral, qwen2_moe, qwen3_moe, deepseek_v2, deepseek_v3, kimi_k2, glm4_moe, "
    "bert, roberta, vit, t5";

OpGraph read_family(const ConfigReader& config, const std::string& name) {
  const JsonInput type = config.json().at("model_type");
  const auto family = type.as<std::string>();
  if (const auto spec = read_decoder_spec(family, config)) {
    return make_decoder_graph(*spec, name, config.json().source());
  }
  if (family == "bert") return read_bert(config, name);
  if (family == "roberta") return read_roberta(config, name);
  if (family == "vit") return read_vit(config, name);
  if (family == "t5") return read_t5(config, name);
  type.fail_expected(fmt::format("a supported family ({})", kSupported));
}

}  // namespace

OpGraph read_hugging_face(const JsonInput& config, const std::string& name) {
  const auto text = config.find("text_config");
  if (!text) return read_family(ConfigReader(config, false), name);
  OpGraph graph = read_family(ConfigReader(*text, true), name);
  graph.notes.push_back("only the text model is counted: the file's text_config");
  return graph;
}

}  // namespace meshwright
