#include "planner/export/hugging_face.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "planner/export/launch.h"
#include "planner/export/quoting.h"

namespace meshwright {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 20> kLayerClasses = {{
    {"gpt2", "GPT2Block"},
    {"gpt_neox", "GPTNeoXLayer"},
    {"opt", "OPTDecoderLayer"},
    {"bloom", "BloomBlock"},
    {"llama", "LlamaDecoderLayer"},
    {"mistral", "MistralDecoderLayer"},
    {"qwen2", "Qwen2DecoderLayer"},
    {"qwen3", "Qwen3DecoderLayer"},
    {"gemma", "GemmaDecoderLayer"},
    {"phi3", "Phi3DecoderLayer"},
    {"olmo2", "Olmo2DecoderLayer"},
    {"granite", "GraniteDecoderLayer"},
    {"seed_oss", "SeedOssDecoderLayer"},
    {"glm4", "Glm4DecoderLayer"},
    {"mixtral", "MixtralDecoderLayer"},
    {"qwen2_moe", "Qwen2MoeDecoderLayer"},
    {"qwen3_moe", "Qwen3MoeDecoderLayer"},
    {"deepseek_v2", "DeepseekV2DecoderLayer"},
    {"deepseek_v3", "DeepseekV3DecoderLayer"},
    {"glm4_moe", "Glm4MoeDecoderLayer"},
}};

constexpr std::array<std::string_view, 8> kCutFamilies = {
    "llama", "mistral", "qwen2", "qwen3", "gemma", "phi3", "mixtral", "qwen3_moe"};

}  // namespace

void check_hugging_face_model(Refusals& refusals, const DecoderSpec& model,
                              const ExportSetting& setting) {
  if (!model.has_head) refuse(refusals, "model", "no head", "it trains language models");
  if (!layer_class(setting.decoder->family)) {
    refuse(refusals, "model", setting.decoder->family, "the class of its layers is not known");
  }
}

void check_cut_family(Refusals& refusals, const PlanChoices& choices,
                      const ExportSetting& setting) {
  if (choices.cp == 1 || !setting.decoder) return;
  const std::string value = std::to_string(choices.cp);
  if (std::ranges::find(kCutFamilies, setting.decoder->family) == kCutFamilies.end()) {
    refuse(refusals, "cp", value,
           fmt::format("it cuts sequences of {}, not of {}", fmt::join(kCutFamilies, ", "),
                       setting.decoder->family));
  } else if (setting.decoder->spec.window) {
    refuse(refusals, "cp", value, "it leaves a window of the model out");
  }
}

ExportedFile hugging_face_config(const Export& what) {
  return {"model/config.json", what.setting.decoder->config};
}

std::optional<std::string> layer_class(std::string_view family) {
  for (const auto& [name, layer] : kLayerClasses) {
    if (name == family) return std::string(layer);
  }
  return std::nullopt;
}

std::string_view torch_type(Precision precision) {
  if (precision == Precision::FP32) return "torch.float32";
  return precision == Precision::FP16 ? "torch.float16" : "torch.bfloat16";
}

std::string build_model_lines(const Export& what, std::string_view indent) {
  std::string text = fmt::format(
      "{0}config = AutoConfig.from_pretrained(\"model\")\n"
      "{0}config.use_cache = False\n"
      "{0}model = AutoModelForCausalLM.from_config(config, attn_implementation=\"sdpa\")\n",
      indent);
  if (what.choices.recompute.kind != Recompute::None) {
    text += fmt::format("{}model.gradient_checkpointing_enable()\n", indent);
  }
  return text;
}

std::string script_head(const Export& what, std::string_view imports) {
  std::string about;
  for (const char c : about_text(what)) {
    about += c;
    if (c == '\n') about += "# ";
  }
  return fmt::format(
      "# {}\n# Trains on random tokens: batch() is yours to change.\n"
      "{}\nSEQUENCE, STEPS = {}, 50\n\n\n"
      "def batch(vocabulary, samples, random):\n"
      "    return torch.randint(vocabulary, (samples, SEQUENCE), generator=random)\n\n\n",
      about, imports, what.setting.batch.sequence);
}

}  // namespace meshwright
