#include "simulator/validation/run_model.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "costmodel/base/json_input.h"
#include "costmodel/model/import/hugging_face.h"
#include "simulator/validation/preset_config.h"

namespace meshwright {
namespace {

constexpr std::int64_t kVocabulary = 51200;  // GPT-2's, padded: what most published runs have
constexpr std::int64_t kHeadSize = 128;

// Megatron pads to a multiple of 128 for every tensor-parallel part
// (--make-vocab-size-divisible-by).
std::int64_t padded(std::int64_t vocabulary, std::int64_t tp) {
  const std::int64_t unit = 128 * tp;
  return (vocabulary + unit - 1) / unit * unit;
}

// So many heads that tensor parallelism divides them and their size is closest to 128.
std::optional<std::int64_t> usual_heads(std::int64_t hidden, std::int64_t tp) {
  std::optional<std::int64_t> best;
  for (std::int64_t heads = tp; heads <= hidden; heads += tp) {
    if (hidden % heads != 0 || hidden / heads % 8 != 0) continue;
    const auto off = [&](std::int64_t count) { return std::abs(hidden / count - kHeadSize); };
    if (!best || off(heads) < off(*best)) best = heads;
  }
  return best;
}

nlohmann::json gpt_config(const PublishedRun& run, std::int64_t heads, std::int64_t vocabulary,
                          double dropout) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"n_embd", *run.hidden},
          {"n_layer", *run.layers},
          {"n_head", heads},
          {"n_inner", run.ffn.value_or(4 * *run.hidden)},
          {"n_positions", *run.sequence},
          {"vocab_size", vocabulary},
          {"activation_function", "gelu_new"},
          {"attn_pdrop", dropout},
          {"embd_pdrop", dropout},
          {"resid_pdrop", dropout}};
}

nlohmann::json llama_config(const PublishedRun& run, std::int64_t heads, std::int64_t vocabulary) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", *run.hidden},
          {"num_hidden_layers", *run.layers},
          {"num_attention_heads", heads},
          {"num_key_value_heads", run.kv_heads.value_or(heads)},
          {"intermediate_size", *run.ffn},
          {"max_position_embeddings", *run.sequence},
          {"vocab_size", vocabulary},
          {"tie_word_embeddings", false}};
}

}  // namespace

std::variant<RunConfig, std::string> config_of(const PublishedRun& run, double dropout,
                                               const std::filesystem::path& data,
                                               std::vector<std::string>& assumed) {
  if (!run.layers || !run.hidden || !run.sequence) {
    return "layers, hidden or seq_len is not stated";
  }
  if (run.arch != "gpt" && run.arch != "llama" && run.arch != "moe") {
    return fmt::format("a model of arch {} is not lowered", run.arch);
  }
  if (run.arch == "llama" && !run.ffn) return "ffn_hidden of a llama is not stated";
  const std::int64_t tp = run.tp.value_or(1);
  const auto heads = run.heads ? run.heads : usual_heads(*run.hidden, tp);
  if (!heads) return "heads is not stated, and no usual number of them divides hidden";
  if (!run.heads) assumed.push_back(fmt::format("heads = {}", *heads));
  if (run.heads_are_of_others) {
    assumed.push_back(fmt::format("heads = {} as in other runs of the model", *heads));
  }
  if (!run.vocabulary) assumed.push_back(fmt::format("vocab = {}", kVocabulary));
  const std::int64_t vocabulary = padded(run.vocabulary.value_or(kVocabulary), tp);
  if (run.arch == "moe") return preset_config(run, vocabulary, data);
  const nlohmann::json config = run.arch == "gpt" ? gpt_config(run, *heads, vocabulary, dropout)
                                                  : llama_config(run, *heads, vocabulary);
  return RunConfig{config.dump()};
}

std::variant<Model, std::string> model_of(const PublishedRun& run, double dropout,
                                          const std::filesystem::path& data,
                                          std::vector<std::string>& assumed) {
  auto config = config_of(run, dropout, data, assumed);
  if (auto* reason = std::get_if<std::string>(&config)) return std::move(*reason);
  const std::string& text = std::get<RunConfig>(config).text;
  return make_model(read_hugging_face(JsonInput::parse(text, run.id), run.model));
}

}  // namespace meshwright
