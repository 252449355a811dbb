#include "costmodel/model/import/encoder_graph.h"

#include <fmt/format.h>

#include <cmath>

#include "costmodel/model/graph_builder.h"

namespace meshwright {
namespace {

using Dims = std::vector<DimId>;

// What the layers of bert, roberta and vit have in common, and where they differ.
struct EncoderSpec {
  std::int64_t hidden = 0, layers = 0, heads = 0, ffn = 0;
  double dropout = 0, attention_dropout = 0;
  NormAttributes norm;
  Function function = Function::Gelu;
  bool norm_first = false;
  bool qkv_bias = true;
  std::string prefix;          // "bert." of "bert.encoder.layer.0..."
  std::string self_attention;  // "attention.self"
  std::string attention_norm, ffn_norm;
};

EncoderSpec read_encoder_spec(const ConfigReader& config) {
  EncoderSpec spec;
  spec.hidden = config.size("hidden_size", 768);
  spec.layers = config.layers({"num_hidden_layers"}, 12);
  spec.heads = config.size("num_attention_heads", 12);
  spec.ffn = config.size("intermediate_size", 3072);
  config.require(
      spec.hidden % spec.heads == 0, "num_attention_heads",
      fmt::format("{} entries cannot be divided among {} heads", spec.hidden, spec.heads));
  spec.norm.epsilon = config.number_or("layer_norm_eps", 1e-12);
  spec.function = config.function_or("hidden_act", "gelu");
  spec.self_attention = "attention.self";
  spec.attention_norm = "attention.output.LayerNorm";
  spec.ffn_norm = "output.LayerNorm";
  return spec;
}

class EncoderLayers {
 public:
  EncoderLayers(const EncoderSpec& spec, GraphBuilder& graph)
      : spec_(spec),
        graph_(graph),
        hidden_(graph.dim("hidden", spec.hidden)),
        heads_(graph.dim("heads", spec.heads)),
        head_size_(graph.dim("head_size", spec.hidden / spec.heads)) {}

  DimId hidden() const { return hidden_; }

  TensorId add_all(TensorId x) {
    for (std::int64_t layer = 0; layer < spec_.layers; ++layer) x = add(x, layer);
    return x;
  }

  TensorId norm(const std::string& name, TensorId x, const std::string& weight) {
    return graph_.norm(OpKind::LayerNorm, name, x, weight, {hidden_}, spec_.norm);
  }

 private:
  TensorId add(TensorId x, std::int64_t layer) {
    weights_ = fmt::format("{}encoder.layer.{}.", spec_.prefix, layer);
    ops_ = fmt::format("layers.{}.", layer);
    const auto norm_attention = [&](TensorId in) {
      return norm(ops_ + "attention.norm", in, weights_ + spec_.attention_norm);
    };
    const auto norm_ffn = [&](TensorId in) {
      return norm(ops_ + "ffn.norm", in, weights_ + spec_.ffn_norm);
    };
    if (spec_.norm_first) {
      x = graph_.add(ops_ + "attention.add", attention(norm_attention(x)), x);
      return graph_.add(ops_ + "ffn.add", feed_forward(norm_ffn(x)), x);
    }
    x = norm_attention(graph_.add(ops_ + "attention.add", attention(x), x));
    return norm_ffn(graph_.add(ops_ + "ffn.add", feed_forward(x), x));
  }

  TensorId attention(TensorId x) {
    const Dims heads = {heads_, head_size_};
    const auto project = [&](const std::string& name, const char* weight) {
      return graph_.dense(ops_ + name, x,
                          fmt::format("{}{}.{}", weights_, spec_.self_attention, weight), {hidden_},
                          heads, spec_.qkv_bias);
    };
    const TensorId q = project("attention.q", "query");
    const TensorId k = project("attention.k", "key");
    const TensorId v = project("attention.v", "value");
    const double size = static_cast<double>(spec_.hidden / spec_.heads);
    const AttentionAttributes attributes{.causal = false,
                                         .alibi = false,
                                         .window = std::nullopt,
                                         .scale = 1 / std::sqrt(size),
                                         .dropout = spec_.attention_dropout};
    const TensorId context = graph_.op(OpKind::Attention, ops_ + "attention.core", {q, k, v}, {},
                                       graph_.dims_of(q), attributes);
    const TensorId out = graph_.dense(ops_ + "attention.output", context,
                                      weights_ + "attention.output.dense", heads, {hidden_}, true);
    return graph_.dropout(ops_ + "attention.dropout", out, spec_.dropout);
  }

  TensorId feed_forward(TensorId x) {
    const DimId ffn = graph_.dim("ffn", spec_.ffn);
    TensorId y =
        graph_.dense(ops_ + "ffn.up", x, weights_ + "intermediate.dense", {hidden_}, {ffn}, true);
    y = graph_.elementwise(OpKind::Activation, ops_ + "ffn.activation", y,
                           FunctionAttributes{spec_.function});
    y = graph_.dense(ops_ + "ffn.down", y, weights_ + "output.dense", {ffn}, {hidden_}, true);
    return graph_.dropout(ops_ + "ffn.dropout", y, spec_.dropout);
  }

  const EncoderSpec& spec_;
  GraphBuilder& graph_;
  DimId hidden_, heads_, head_size_;
  std::string weights_, ops_;  // prefixes of the layer being built
};

// Dense and tanh on the first position.
TensorId pool(GraphBuilder& graph, TensorId x, DimId hidden, const std::string& weight) {
  const TensorId first =
      graph.op(OpKind::SelectFirst, "head.first", {x}, {}, {graph.batch(), hidden}, {});
  // Input and output are the same size but not the same dimension.
  const DimId pooled = graph.dim("pooled", graph.size_of(hidden));
  const TensorId y = graph.dense("head.pooler", first, weight, {hidden}, {pooled}, true);
  return graph.elementwise(OpKind::Activation, "head.tanh", y, FunctionAttributes{Function::Tanh});
}

// How the two masked language models name their head.
struct MaskedHeadNames {
  std::string dense, norm, decoder, bias;
  std::int64_t reserved_positions = 0;  // rows that no token's position uses
};

void add_masked_head(GraphBuilder& graph, EncoderLayers& layers, TensorId x,
                     const MaskedHeadNames& names, const EncoderSpec& spec, WeightId table,
                     bool tied) {
  const Dims tokens = {graph.batch(), graph.sequence()};
  const DimId hidden = layers.hidden();
  // The weight is square: its output needs a name of its own, and is called hidden again after.
  const DimId transformed = graph.dim("transformed", spec.hidden);
  x = graph.dense("head.transform", x, names.dense, {hidden}, {transformed}, true);
  x = graph.elementwise(OpKind::Activation, "head.activation", x,
                        FunctionAttributes{spec.function});
  x = graph.op_with_outputs(OpKind::Split, "head.rename", {x},
                            {{"head.rename", joined(tokens, {hidden})}},
                            AxisAttributes{transformed})[0];
  x = layers.norm("head.norm", x, names.norm);
  const DimId vocabulary = graph.dims_of_weight(table)[0];
  const WeightId weight = tied ? table : graph.weight(names.decoder, {vocabulary, hidden});
  const WeightId bias = graph.weight(names.bias, {vocabulary});
  const TensorId logits =
      graph.linear("head.logits", x, {weight, bias}, joined(tokens, {vocabulary}));
  const TensorId labels = graph.input("labels", tokens, Element::Index);
  graph.op(OpKind::CrossEntropy, "head.loss", {logits, labels}, {}, {}, {});
}

OpGraph read_masked(const ConfigReader& config, const std::string& name, std::string_view masked,
                    std::string_view bare, const std::string& prefix, const MaskedHeadNames& head) {
  EncoderSpec spec = read_encoder_spec(config);
  const bool has_head = config.architecture({masked, bare}) == 0;
  spec.prefix = has_head ? prefix : "";
  spec.dropout = config.probability_or("hidden_dropout_prob", 0.1);
  spec.attention_dropout = config.probability_or("attention_probs_dropout_prob", 0.1);
  config.require(config.text_or("position_embedding_type", "absolute") == "absolute",
                 "position_embedding_type", "only \"absolute\" is supported");
  config.require(!config.flag_or("is_decoder", false), "is_decoder", "decoders are not supported");

  GraphBuilder graph(name);
  EncoderLayers layers(spec, graph);
  const DimId hidden = layers.hidden();
  const DimId vocabulary = graph.dim("vocabulary", config.size("vocab_size", 30522));
  const Dims tokens = {graph.batch(), graph.sequence()};
  const std::string embeddings = spec.prefix + "embeddings.";
  const WeightId table = graph.weight(embeddings + "word_embeddings.weight", {vocabulary, hidden});
  TensorId x =
      graph.embedding("embedding.tokens", graph.input("tokens", tokens, Element::Index), table);
  const WeightId types =
      graph.weight(embeddings + "token_type_embeddings.weight",
                   {graph.dim("token_types", config.size_or("type_vocab_size", 2)), hidden});
  x = graph.add("embedding.add_types", x,
                graph.embedding("embedding.types",
                                graph.input("token_types", tokens, Element::Index), types));
  const std::int64_t position_rows = config.size("max_position_embeddings", 512);
  config.require(position_rows > head.reserved_positions, "max_position_embeddings",
                 fmt::format("{} rows are reserved, so more are needed, found {}",
                             head.reserved_positions, position_rows));
  graph.limit_sequence(position_rows - head.reserved_positions);
  const WeightId rows = graph.weight(embeddings + "position_embeddings.weight",
                                     {graph.dim("positions", position_rows), hidden});
  const TensorId positions = graph.input("positions", {graph.sequence()}, Element::Index);
  x = graph.add("embedding.add_positions", x,
                graph.embedding("embedding.positions", positions, rows));
  x = layers.norm("embedding.norm", x, embeddings + "LayerNorm");
  x = layers.add_all(graph.dropout("embedding.dropout", x, spec.dropout));
  if (!has_head) {
    pool(graph, x, hidden, spec.prefix + "pooler.dense");
    return graph.finish(config.json().source());
  }
  add_masked_head(graph, layers, x, head, spec, table, config.flag_or("tie_word_embeddings", true));
  return graph.finish(config.json().source());
}

}  // namespace

OpGraph read_bert(const ConfigReader& config, const std::string& name) {
  const std::string head = "cls.predictions.";
  return read_masked(config, name, "BertForMaskedLM", "BertModel", "bert.",
                     {.dense = head + "transform.dense",
                      .norm = head + "transform.LayerNorm",
                      .decoder = head + "decoder.weight",
                      .bias = head + "bias"});
}

// The file's number of positions holds the two rows for padding already, unlike opt's.
OpGraph read_roberta(const ConfigReader& config, const std::string& name) {
  return read_masked(config, name, "RobertaForMaskedLM", "RobertaModel", "roberta.",
                     {.dense = "lm_head.dense",
                      .norm = "lm_head.layer_norm",
                      .decoder = "lm_head.decoder.weight",
                      .bias = "lm_head.bias",
                      .reserved_positions = 2});
}

OpGraph read_vit(const ConfigReader& config, const std::string& name) {
  EncoderSpec spec = read_encoder_spec(config);
  const bool classifies = config.architecture({"ViTForImageClassification", "ViTModel"}) == 0;
  spec.prefix = classifies ? "vit." : "";
  spec.dropout = config.probability_or("hidden_dropout_prob", 0);
  spec.attention_dropout = config.probability_or("attention_probs_dropout_prob", 0);
  spec.qkv_bias = config.flag_or("qkv_bias", true);
  spec.norm_first = true;
  spec.self_attention = "attention.attention";
  spec.attention_norm = "layernorm_before";
  spec.ffn_norm = "layernorm_after";
  const std::int64_t image = config.size_or("image_size", 224);
  const std::int64_t patch = config.size_or("patch_size", 16);
  config.require(image % patch == 0, "patch_size",
                 fmt::format("an image of {} cannot be cut into patches of {}", image, patch));

  GraphBuilder graph(name);
  EncoderLayers layers(spec, graph);
  const DimId hidden = layers.hidden();
  const std::int64_t patches = (image / patch) * (image / patch);
  const DimId patch_dim = graph.dim("patches", patches);
  const DimId tokens = graph.dim("tokens", patches + 1);
  const Dims pixels = {graph.dim("channels", config.size_or("num_channels", 3)),
                       graph.dim("patch_rows", patch), graph.dim("patch_columns", patch)};
  const TensorId picture =
      graph.input("pixels", joined({graph.batch(), patch_dim}, pixels), Element::Real);
  const std::string embeddings = spec.prefix + "embeddings.";
  TensorId x = graph.dense("embedding.patches", picture, embeddings + "patch_embeddings.projection",
                           pixels, {hidden}, true);
  const WeightId start = graph.weight(embeddings + "cls_token", {hidden});
  const Dims result = {graph.batch(), tokens, hidden};
  x = graph.op(OpKind::Concat, "embedding.start", {x}, {start}, result, AxisAttributes{tokens});
  const WeightId positions = graph.weight(embeddings + "position_embeddings", {tokens, hidden});
  x = graph.op(OpKind::Add, "embedding.positions", {x}, {positions}, result, {});
  x = layers.add_all(graph.dropout("embedding.dropout", x, spec.dropout));
  x = layers.norm("head.norm", x, spec.prefix + "layernorm");
  if (!classifies) {
    pool(graph, x, hidden, spec.prefix + "pooler.dense");
    return graph.finish(config.json().source());
  }
  const auto names = config.json().find("id2label");
  const std::int64_t class_count =
      names ? static_cast<std::int64_t>(names->fields().size()) : config.size_or("num_labels", 2);
  config.require(class_count > 0, "id2label", "names no class");
  const DimId classes = graph.dim("classes", class_count);
  const TensorId first =
      graph.op(OpKind::SelectFirst, "head.first", {x}, {}, {graph.batch(), hidden}, {});
  const TensorId logits =
      graph.dense("head.logits", first, "classifier", {hidden}, {classes}, true);
  const TensorId labels = graph.input("labels", {graph.batch()}, Element::Index);
  graph.op(OpKind::CrossEntropy, "head.loss", {logits, labels}, {}, {}, {});
  return graph.finish(config.json().source());
}

}  // namespace meshwright
