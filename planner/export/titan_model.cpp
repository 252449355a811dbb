#include "planner/export/titan_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/export/llama_model.h"
#include "planner/export/quoting.h"

namespace meshwright {
namespace {

std::string rope_scaling_text(const RopeAttributes& rope) {
  if (rope.scaling.empty()) return "scaling=\"none\"";
  return fmt::format(
      "scaling=\"llama\", scaling_factor={}, low_freq_factor={}, high_freq_factor={},\n"
      "                original_max_position_embeddings={}",
      number_text(rope.factor), number_text(rope.low_factor), number_text(rope.high_factor),
      rope.original_positions);
}

// Queries, keys and values are apart, as the plan has them: what is kept counts products.
std::string llama_model_text(const Export& what) {
  const DecoderSpec& model = what.model;
  const RopeAttributes& rope = rope_of(model);
  return fmt::format(
      "def model():\n"
      "    dim, vocabulary, eps = {0}, {1}, {2}\n"
      "    layers = _build_llama3_layers(\n"
      "        n_layers={3},\n"
      "        dim=dim,\n"
      "        n_heads={4},\n"
      "        n_kv_heads={5},\n"
      "        hidden_dim={6},\n"
      "        fuse_qkv=False,\n"
      "        rope=ComplexRoPE.Config(\n"
      "            dim={7}, max_seq_len={8}, theta={9},\n"
      "            {10},\n"
      "        ),\n"
      "        attn_backend=\"flex\",\n"
      "    )\n"
      "    for layer in layers:\n"
      "        layer.attention_norm.eps = layer.ffn_norm.eps = eps\n"
      "    return Llama3Model.Config(\n"
      "        dim=dim,\n"
      "        vocab_size=vocabulary,\n"
      "        enable_weight_tying={11},\n"
      "        tok_embeddings=Embedding.Config(\n"
      "            num_embeddings=vocabulary, embedding_dim=dim, param_init=_EMBEDDING_INIT\n"
      "        ),\n"
      "        norm=RMSNorm.Config(normalized_shape=dim, eps=eps, param_init=_NORM_INIT),\n"
      "        lm_head=Linear.Config(\n"
      "            in_features=dim, out_features=vocabulary, "
      "param_init=_output_linear_init(dim)\n"
      "        ),\n"
      "        layers=layers,\n"
      "    )\n",
      model.hidden, model.vocabulary, number_text(model.norm_attributes.epsilon), model.layers,
      model.heads, model.kv_heads, model.ffn, model.head_size, what.setting.batch.sequence,
      number_text(rope.theta), rope_scaling_text(rope), python_text(model.tied));
}

bool is_qwen3(const DecoderSpec& model) { return model.qk_norm != QkNorm::None; }

// Its norms have one epsilon, which is no argument of what builds layers.
constexpr double kQwen3Epsilon = 1e-6;

void check_qwen3_model(Refusals& refusals, const DecoderSpec& model) {
  const auto refuse_if = [&](bool differs, std::string what) {
    if (differs) refuse(refusals, "model", std::move(what), "it builds qwen3's layers as they are");
  };
  refuse_if(model.norm_attributes.epsilon != kQwen3Epsilon, "another epsilon of norms");
  if (const auto* rope = std::get_if<RopeAttributes>(&model.positions)) {
    refuse_if(!rope->scaling.empty(), "rope scaling " + rope->scaling);
  }
  if (!model.experts) return;
  const RouterAttributes& router = model.experts->router;
  refuse_if(router.sigmoid || router.groups > 1 || router.factor != 1 || !router.renormalize,
            "experts chosen otherwise than by a softmax that is scaled to one");
  refuse_if(router.balance > 0, "a loss of uneven choices of experts");
  refuse_if(model.experts->shared_width.has_value(), "shared experts");
  refuse_if(std::ranges::count(model.sparse, false) > 0, "experts in some layers");
}

// Nothing but the loss evens choices of experts out, and that has no term for it.
std::string qwen3_layers_text(const DecoderSpec& model) {
  const std::string shared = fmt::format(
      "        n_layers={}, dim=dim, n_heads={}, n_kv_heads={}, head_dim={},\n"
      "        fuse_qkv=False, attn_backend=\"flex\", rope=rope,\n",
      model.layers, model.heads, model.kv_heads, model.head_size);
  if (!model.experts) {
    return fmt::format("    layers = _build_qwen3_layers(\n{}        hidden_dim={},\n    )\n",
                       shared, model.ffn);
  }
  return fmt::format(
      "    layers = _build_qwen3_moe_layers(\n{}"
      "        moe_hidden_dim={}, num_experts={}, top_k={}, moe_comm_backend=\"standard\",\n"
      "    )\n"
      "    for layer in layers:\n"
      "        layer.moe.load_balance_coeff = None\n",
      shared, model.experts->width, model.experts->experts, model.experts->choices);
}

std::string qwen3_model_text(const Export& what) {
  const DecoderSpec& model = what.model;
  return fmt::format(
      "def model():\n"
      "    dim, vocabulary = {}, {}\n"
      "    rope = CosSinRoPE.Config(dim={}, max_seq_len={}, theta={})\n"
      "{}"
      "    return Qwen3Model.Config(\n"
      "        dim=dim,\n"
      "        vocab_size=vocabulary,\n"
      "        enable_weight_tying={},\n"
      "        norm=_qwen3_norm(dim),\n"
      "        tok_embeddings=Embedding.Config(\n"
      "            num_embeddings=vocabulary, embedding_dim=dim, param_init={}\n"
      "        ),\n"
      "        lm_head=Linear.Config(\n"
      "            in_features=dim, out_features=vocabulary, param_init=_LINEAR_INIT\n"
      "        ),\n"
      "        layers=layers,\n"
      "    )\n",
      model.hidden, model.vocabulary, model.head_size, what.setting.batch.sequence,
      number_text(rope_of(model).theta), qwen3_layers_text(model), python_text(model.tied),
      model.tied ? "_EMBEDDING_SKIP_INIT" : "_EMBEDDING_INIT");
}

constexpr std::string_view kSharedImports =
    "from torchtitan.components.loss import CrossEntropyLoss\n"
    "from torchtitan.components.optimizer import default_adamw\n"
    "from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC\n"
    "from torchtitan.distributed.pipeline_parallel import pipeline_llm\n"
    "from torchtitan.hf_datasets.text_datasets import HuggingFaceTextDataLoader\n"
    "from torchtitan.protocols.model_spec import ModelSpec\n"
    "from torchtitan.trainer import Trainer\n";

constexpr std::string_view kLlamaImports =
    "from torchtitan.models.common import ComplexRoPE, Embedding, Linear, RMSNorm\n"
    "from torchtitan.models.llama3 import (\n"
    "    _EMBEDDING_INIT,\n"
    "    _NORM_INIT,\n"
    "    _build_llama3_layers,\n"
    "    _output_linear_init,\n"
    ")\n"
    "from torchtitan.models.llama3.model import Llama3Model\n"
    "from torchtitan.models.llama3.parallelize import parallelize_llama\n"
    "from torchtitan.models.llama3.state_dict_adapter import Llama3StateDictAdapter\n";

constexpr std::string_view kQwen3Imports =
    "from torchtitan.models.common import CosSinRoPE, Embedding, Linear\n"
    "from torchtitan.models.qwen3 import (\n"
    "    _EMBEDDING_INIT,\n"
    "    _EMBEDDING_SKIP_INIT,\n"
    "    _LINEAR_INIT,\n"
    "    _build_qwen3_layers,\n"
    "    _build_qwen3_moe_layers,\n"
    "    _qwen3_norm,\n"
    ")\n"
    "from torchtitan.models.qwen3.model import Qwen3Model\n"
    "from torchtitan.models.qwen3.parallelize import parallelize_qwen3\n"
    "from torchtitan.models.qwen3.state_dict_adapter import Qwen3StateDictAdapter\n";

}  // namespace

void check_titan_model(Refusals& refusals, const DecoderSpec& model, const ExportSetting& setting) {
  if (!is_qwen3(model)) return check_llama_model(refusals, model, setting);
  check_llama_layers(refusals, model, setting, "it builds layers of llama and qwen3 alone");
  if (refusals.empty()) check_qwen3_model(refusals, model);
}

TitanFamily titan_family(const DecoderSpec& model) {
  if (is_qwen3(model)) return {"qwen3", "parallelize_qwen3", "Qwen3StateDictAdapter"};
  return {"llama3", "parallelize_llama", "Llama3StateDictAdapter"};
}

std::string titan_imports(const Export& what) {
  return std::string(kSharedImports) +
         std::string(is_qwen3(what.model) ? kQwen3Imports : kLlamaImports);
}

std::string titan_model_text(const Export& what) {
  return is_qwen3(what.model) ? qwen3_model_text(what) : llama_model_text(what);
}

}  // namespace meshwright
