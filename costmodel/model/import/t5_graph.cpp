#include <fmt/format.h>

#include <cmath>

#include "costmodel/base/input_error.h"
#include "costmodel/model/graph_builder.h"
#include "costmodel/model/import/encoder_graph.h"

namespace meshwright {
namespace {

using Dims = std::vector<DimId>;

struct T5Spec {
  std::int64_t vocabulary = 0, hidden = 0, head_size = 0, heads = 0, ffn = 0;
  std::int64_t encoder_layers = 0, decoder_layers = 0, buckets = 0;
  double dropout = 0;
  NormAttributes norm;
  Function function = Function::Relu;
  bool gated = false, tied = true;
};

T5Spec read_t5_spec(const ConfigReader& config) {
  T5Spec spec;
  spec.vocabulary = config.size("vocab_size", 32128);
  spec.hidden = config.size("d_model", 512);
  spec.head_size = config.size("d_kv", 64);
  spec.heads = config.size("num_heads", 8);
  spec.ffn = config.size("d_ff", 2048);
  spec.encoder_layers = config.layers({"num_layers"}, 6);
  spec.decoder_layers = config.layers_or("num_decoder_layers", spec.encoder_layers);
  spec.buckets = config.size_or("relative_attention_num_buckets", 32);
  spec.dropout = config.probability_or("dropout_rate", 0.1);
  spec.norm.epsilon = config.number_or("layer_norm_epsilon", 1e-6);
  spec.tied = config.flag_or("tie_word_embeddings", true);
  const std::string form = config.text_or("feed_forward_proj", "relu");
  config.require(form == "relu" || form == "gated-gelu", "feed_forward_proj",
                 fmt::format("expected relu or gated-gelu, found {}", printable(form)));
  spec.gated = form == "gated-gelu";
  if (spec.gated) spec.function = Function::GeluTanh;
  return spec;
}

class T5Graph {
 public:
  T5Graph(const T5Spec& spec, const std::string& name)
      : spec_(spec),
        graph_(name),
        hidden_(graph_.dim("hidden", spec.hidden)),
        heads_(graph_.dim("heads", spec.heads)),
        head_size_(graph_.dim("head_size", spec.head_size)),
        ffn_(graph_.dim("ffn", spec.ffn)),
        vocabulary_(graph_.dim("vocabulary", spec.vocabulary)),
        table_(graph_.weight("shared.weight", {vocabulary_, hidden_})) {}

  OpGraph build(const std::string& source) {
    const TensorId encoded = encode();
    TensorId x = decode(encoded);
    // A tied table is used at the scale of embeddings.
    if (spec_.tied) {
      x = graph_.elementwise(OpKind::Scale, "head.scale", x,
                             ScaleAttributes{1 / std::sqrt(static_cast<double>(spec_.hidden))});
    }
    const WeightId weight =
        spec_.tied ? table_ : graph_.weight("lm_head.weight", {vocabulary_, hidden_});
    const Dims tokens = {graph_.batch(), target_};
    const TensorId logits =
        graph_.linear("head.logits", x, {weight, std::nullopt}, joined(tokens, {vocabulary_}));
    const TensorId labels = graph_.input("labels", tokens, Element::Index);
    graph_.op(OpKind::CrossEntropy, "head.loss", {logits, labels}, {}, {}, {});
    return graph_.finish(source);
  }

 private:
  TensorId encode() {
    TensorId x = embed("encoder", "tokens", graph_.sequence());
    const TensorId bias =
        relative_bias("encoder", graph_.sequence(), graph_.sequence_dim("source_keys"));
    for (std::int64_t layer = 0; layer < spec_.encoder_layers; ++layer) {
      start_layer("encoder", layer);
      x = self_attention(x, bias, false);
      x = feed_forward(x, 1);
    }
    return finish_stack("encoder", x);
  }

  TensorId decode(TensorId encoded) {
    target_ = graph_.sequence_dim("target_sequence");
    TensorId x = embed("decoder", "target_tokens", target_);
    const TensorId bias = relative_bias("decoder", target_, graph_.sequence_dim("target_keys"));
    for (std::int64_t layer = 0; layer < spec_.decoder_layers; ++layer) {
      start_layer("decoder", layer);
      x = self_attention(x, bias, true);
      x = cross_attention(x, encoded);
      x = feed_forward(x, 2);
    }
    return finish_stack("decoder", x);
  }

  TensorId embed(const std::string& stack, const std::string& input, DimId sequence) {
    const TensorId tokens = graph_.input(input, {graph_.batch(), sequence}, Element::Index);
    const TensorId x = graph_.embedding(stack + ".embedding.tokens", tokens, table_);
    return graph_.dropout(stack + ".embedding.dropout", x, spec_.dropout);
  }

  // Stored with the first layer, used by all of the stack.
  TensorId relative_bias(const std::string& stack, DimId queries, DimId keys) {
    const WeightId table =
        graph_.weight(stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                      {graph_.dim("buckets", spec_.buckets), heads_});
    return graph_.op(OpKind::RelativeBias, stack + ".embedding.bias", {}, {table},
                     {heads_, queries, keys}, {});
  }

  void start_layer(const std::string& stack, std::int64_t layer) {
    weights_ = fmt::format("{}.block.{}.layer.", stack, layer);
    ops_ = fmt::format("{}.layers.{}.", stack, layer);
  }

  TensorId self_attention(TensorId x, TensorId bias, bool causal) {
    const TensorId in = norm(ops_ + "attention.norm", x, weights_ + "0.layer_norm");
    return attend("attention.", weights_ + "0.SelfAttention.", x, in, in, bias, causal);
  }

  TensorId cross_attention(TensorId x, TensorId encoded) {
    const TensorId in = norm(ops_ + "cross.norm", x, weights_ + "1.layer_norm");
    return attend("cross.", weights_ + "1.EncDecAttention.", x, in, encoded, std::nullopt, false);
  }

  // Unscaled, as T5 trains it.
  TensorId attend(const std::string& part, const std::string& weights, TensorId residual,
                  TensorId from, TensorId to, std::optional<TensorId> bias, bool causal) {
    const std::string ops = ops_ + part;
    const Dims heads = {heads_, head_size_};
    const TensorId q = graph_.dense(ops + "q", from, weights + "q", {hidden_}, heads, false);
    const TensorId k = graph_.dense(ops + "k", to, weights + "k", {hidden_}, heads, false);
    const TensorId v = graph_.dense(ops + "v", to, weights + "v", {hidden_}, heads, false);
    std::vector<TensorId> inputs = {q, k, v};
    if (bias) inputs.push_back(*bias);
    const AttentionAttributes attributes{.causal = causal,
                                         .alibi = false,
                                         .window = std::nullopt,
                                         .scale = 1,
                                         .dropout = spec_.dropout};
    TensorId y = graph_.op(OpKind::Attention, ops + "core", std::move(inputs), {},
                           graph_.dims_of(q), attributes);
    y = graph_.dense(ops + "output", y, weights + "o", heads, {hidden_}, false);
    y = graph_.dropout(ops + "dropout", y, spec_.dropout);
    return graph_.add(ops + "add", y, residual);
  }

  TensorId feed_forward(TensorId x, int part) {
    const std::string ops = ops_ + "ffn.";
    const std::string weights = fmt::format("{}{}.", weights_, part);
    const TensorId in = norm(ops + "norm", x, weights + "layer_norm");
    const auto widen = [&](const char* name, const char* weight) {
      return graph_.dense(ops + name, in, weights + "DenseReluDense." + weight, {hidden_}, {ffn_},
                          false);
    };
    TensorId y;
    if (spec_.gated) {
      const TensorId gate = widen("gate", "wi_0");
      y = graph_.gated(ops + "activation", spec_.function, gate, widen("up", "wi_1"));
    } else {
      y = graph_.elementwise(OpKind::Activation, ops + "activation", widen("up", "wi"),
                             FunctionAttributes{spec_.function});
    }
    y = graph_.dropout(ops + "inner_dropout", y, spec_.dropout);
    y = graph_.dense(ops + "down", y, weights + "DenseReluDense.wo", {ffn_}, {hidden_}, false);
    return graph_.add(ops + "add", graph_.dropout(ops + "dropout", y, spec_.dropout), x);
  }

  TensorId finish_stack(const std::string& stack, TensorId x) {
    x = norm(stack + ".head.norm", x, stack + ".final_layer_norm");
    return graph_.dropout(stack + ".head.dropout", x, spec_.dropout);
  }

  TensorId norm(const std::string& name, TensorId x, const std::string& weight) {
    return graph_.norm(OpKind::RmsNorm, name, x, weight, {hidden_}, spec_.norm);
  }

  const T5Spec& spec_;
  GraphBuilder graph_;
  DimId hidden_, heads_, head_size_, ffn_, vocabulary_, target_;
  WeightId table_;
  std::string weights_, ops_;  // prefixes of the layer being built
};

}  // namespace

OpGraph read_t5(const ConfigReader& config, const std::string& name) {
  config.architecture({"T5ForConditionalGeneration"});
  const T5Spec spec = read_t5_spec(config);
  return T5Graph(spec, name).build(config.json().source());
}

}  // namespace meshwright
