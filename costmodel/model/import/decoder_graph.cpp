#include <fmt/format.h>

#include <cmath>

#include "costmodel/model/graph_builder.h"
#include "costmodel/model/import/decoder_spec.h"

namespace meshwright {
namespace {

using Dims = std::vector<DimId>;

class DecoderGraph {
 public:
  DecoderGraph(const DecoderSpec& spec, const std::string& name)
      : spec_(spec), names_(spec.names), graph_(name) {
    hidden_ = graph_.dim("hidden", spec.hidden);
    heads_ = {graph_.dim(spec.heads == spec.kv_heads ? "heads" : "kv_heads", spec.kv_heads)};
    query_heads_ = heads_;
    if (spec.heads != spec.kv_heads) {
      query_heads_.push_back(graph_.dim("queries_per_head", spec.heads / spec.kv_heads));
    }
    if (!spec.latent) head_size_ = graph_.dim("head_size", spec.head_size);
    tokens_ = {graph_.batch(), graph_.sequence()};
  }

  OpGraph build(const std::string& source) {
    TensorId x = embed();
    for (std::int64_t layer = 0; layer < spec_.layers; ++layer) {
      name_layer(layer, fmt::format("layers.{}.", layer));
      x = add_layer(x, layer);
    }
    const TensorId last = x;
    if (spec_.final_norm) x = norm("head.norm", x, spec_.prefix + names_.final_norm, {hidden_});
    if (spec_.embedding_width != spec_.hidden) {
      x = linear("head.project_out", x, spec_.prefix + names_.project_out, {hidden_},
                 {embedding_width_}, false);
    }
    if (spec_.has_head) {
      add_head("head.", x, 0, {});
      predict_further(last);
    }
    return graph_.finish(source);
  }

 private:
  TensorId embed() {
    const TensorId tokens = graph_.input("tokens", tokens_, Element::Index);
    const DimId vocabulary = graph_.dim("vocabulary", spec_.vocabulary);
    embedding_width_ = spec_.embedding_width == spec_.hidden
                           ? hidden_
                           : graph_.dim("embedding_width", spec_.embedding_width);
    table_ =
        graph_.weight(spec_.prefix + names_.embedding + ".weight", {vocabulary, embedding_width_});
    TensorId x = graph_.embedding("embedding.tokens", tokens, table_);
    if (embedding_width_ != hidden_) {
      x = linear("embedding.project_in", x, spec_.prefix + names_.project_in, {embedding_width_},
                 {hidden_}, false);
    }
    if (spec_.embedding_scale) {
      x = scaled("embedding.scale", x, *spec_.embedding_scale);
    }
    if (const auto* learned = std::get_if<LearnedPositions>(&spec_.positions)) {
      graph_.limit_sequence(learned->rows - learned->reserved);
      const TensorId index = graph_.input("positions", {graph_.sequence()}, Element::Index);
      const WeightId rows = graph_.weight(spec_.prefix + names_.positions + ".weight",
                                          {graph_.dim("positions", learned->rows), hidden_});
      x = graph_.add("embedding.add", x, graph_.embedding("embedding.positions", index, rows));
    }
    if (spec_.embedding_norm) {
      x = norm("embedding.norm", x, spec_.prefix + names_.embedding_norm, {hidden_});
    }
    return graph_.dropout("embedding.dropout", x, spec_.embedding_dropout);
  }

  void name_layer(std::int64_t layer, std::string ops) {
    weights_ = fmt::format("{}{}.{}.", spec_.prefix, names_.layers, layer);
    ops_ = std::move(ops);
  }

  // A layer of the kind that layer `like` is.
  TensorId add_layer(TensorId x, std::int64_t like) {
    const bool sparse = !spec_.sparse.empty() && spec_.sparse[static_cast<std::size_t>(like)];
    const auto feed_forward = [&](TensorId in) { return sparse ? experts(in) : mlp(in); };
    if (spec_.parallel_residual) {
      const TensorId attended = attention(norm_attention(x));
      const TensorId both = graph_.add(ops_ + "ffn.join", feed_forward(norm_ffn(x)), attended);
      return graph_.add(ops_ + "ffn.add", both, x);
    }
    const bool first = spec_.norms == NormPlace::First || spec_.norms == NormPlace::Around;
    const TensorId attended = attention(first ? norm_attention(x) : x);
    x = add_branch("attention.", attended, x, names_.attention_norm, names_.attention_end_norm);
    const TensorId fed = feed_forward(first ? norm_ffn(x) : x);
    return add_branch("ffn.", fed, x, names_.ffn_norm, names_.ffn_end_norm);
  }

  TensorId norm_attention(TensorId x) {
    return norm(ops_ + "attention.norm", x, weights_ + names_.attention_norm, {hidden_});
  }

  TensorId norm_ffn(TensorId x) {
    return norm(ops_ + "ffn.norm", x, weights_ + names_.ffn_norm, {hidden_});
  }

  // What attention or feed-forward found out, added to what they read.
  TensorId add_branch(const std::string& ops, TensorId found, TensorId x, const std::string& weight,
                      const std::string& end_weight) {
    const std::string name = ops_ + ops;
    if (spec_.norms == NormPlace::Last)
      found = norm(name + "norm", found, weights_ + weight, {hidden_});
    if (spec_.norms == NormPlace::Around) {
      found = norm(name + "end_norm", found, weights_ + end_weight, {hidden_});
    }
    if (spec_.branch_scale) found = scaled(name + "scale", found, *spec_.branch_scale);
    const TensorId sum = graph_.add(name + "add", found, x);
    return spec_.norms == NormPlace::AfterSum
               ? norm(name + "norm", sum, weights_ + weight, {hidden_})
               : sum;
  }

  TensorId scaled(const std::string& name, TensorId x, double factor) {
    return graph_.elementwise(OpKind::Scale, name, x, ScaleAttributes{factor});
  }

  TensorId attention(TensorId x) {
    TensorId q, k, v;
    double scale = spec_.score_scale.value_or(1 / std::sqrt(static_cast<double>(spec_.head_size)));
    DimId value_size = head_size_;
    if (spec_.latent) {
      std::tie(q, k, v) = latent_qkv(x);
      value_size = graph_.dims_of(v).back();
      scale = spec_.latent->score_factor /
              std::sqrt(static_cast<double>(spec_.latent->nope_size + spec_.latent->rope_size));
    } else {
      std::tie(q, k, v) = plain_qkv(x);
    }
    const AttentionAttributes attributes{
        .causal = true,
        .alibi = std::holds_alternative<AlibiPositions>(spec_.positions),
        .window = spec_.window,
        .scale = scale,
        .dropout = spec_.attention_dropout};
    const Dims result = joined(joined(tokens_, query_heads_), {value_size});
    const TensorId context =
        graph_.op(OpKind::Attention, ops_ + "attention.core", {q, k, v}, {}, result, attributes);
    const TensorId out = linear(ops_ + "attention.output", context, weights_ + names_.output,
                                joined(query_heads_, {value_size}), {hidden_}, spec_.output_bias);
    return graph_.dropout(ops_ + "attention.dropout", out, spec_.residual_dropout);
  }

  using Qkv = std::tuple<TensorId, TensorId, TensorId>;

  Qkv plain_qkv(TensorId x) {
    auto [q, k, v] = spec_.qkv_form == QkvForm::ThreeFirst || spec_.qkv_form == QkvForm::HeadsFirst
                         ? fused_qkv(x)
                         : separate_qkv(x);
    if (spec_.qk_norm != QkNorm::None) {
      const bool all = spec_.qk_norm == QkNorm::AllHeads;
      q = norm(ops_ + "attention.q_norm", q, weights_ + names_.q_norm,
               all ? joined(query_heads_, {head_size_}) : Dims{head_size_});
      k = norm(ops_ + "attention.k_norm", k, weights_ + names_.k_norm,
               all ? joined(heads_, {head_size_}) : Dims{head_size_});
    }
    if (const auto* rope = std::get_if<RopeAttributes>(&spec_.positions)) {
      q = graph_.elementwise(OpKind::Rope, ops_ + "attention.q_rope", q, *rope);
      k = graph_.elementwise(OpKind::Rope, ops_ + "attention.k_rope", k, *rope);
    }
    return {q, k, v};
  }

  Qkv separate_qkv(TensorId x) {
    // A piece of a concatenated weight is named weight[piece].
    const auto project = [&](const char* name, const std::string& weight, const Dims& heads) {
      const bool piece = spec_.qkv_form == QkvForm::Concatenated;
      return linear(fmt::format("{}attention.{}", ops_, name), x,
                    weights_ + (piece ? names_.qkv : weight), {hidden_},
                    joined(heads, {head_size_}), spec_.qkv_bias,
                    piece ? fmt::format("[{}]", name) : "");
    };
    const TensorId q = project("q", names_.q, query_heads_);
    const TensorId k = project("k", names_.k, heads_);
    return {q, k, project("v", names_.v, heads_)};
  }

  Qkv fused_qkv(TensorId x) {
    const DimId three = graph_.dim("three", 3);
    const Dims out = spec_.qkv_form == QkvForm::ThreeFirst ? Dims{three, heads_[0], head_size_}
                                                           : Dims{heads_[0], three, head_size_};
    const TensorId all =
        linear(ops_ + "attention.qkv", x, weights_ + names_.qkv, {hidden_}, out, spec_.qkv_bias);
    const Dims piece = joined(tokens_, {heads_[0], head_size_});
    const std::string name = ops_ + "attention.split";
    const auto pieces = graph_.op_with_outputs(
        OpKind::Split, name, {all},
        {{name + ".q", piece}, {name + ".k", piece}, {name + ".v", piece}}, AxisAttributes{three});
    return {pieces[0], pieces[1], pieces[2]};
  }

  Qkv latent_qkv(TensorId x) {
    const LatentSpec& latent = *spec_.latent;
    const RopeAttributes& rope = std::get<RopeAttributes>(spec_.positions);
    RopeAttributes query_rope = rope;
    query_rope.first = latent.nope_size;
    const DimId query_size = graph_.dim("query_size", latent.nope_size + latent.rope_size);
    const DimId rank = graph_.dim("kv_rank", latent.key_value_rank);
    const DimId nope = graph_.dim("nope_size", latent.nope_size);
    const DimId rope_size = graph_.dim("rope_size", latent.rope_size);
    const DimId value = graph_.dim("value_size", latent.value_size);
    const DimId value_part = graph_.dim("value_part", latent.value_size);

    TensorId q = latent_queries(x, query_size);
    q = graph_.elementwise(OpKind::Rope, ops_ + "attention.q_rope", q, query_rope);

    const DimId compressed = graph_.dim("kv_compressed", latent.key_value_rank + latent.rope_size);
    const TensorId down =
        linear(ops_ + "attention.kv_down", x, weights_ + "self_attn.kv_a_proj_with_mqa", {hidden_},
               {compressed}, spec_.qkv_bias);
    const std::string cut = ops_ + "attention.kv_split";
    const auto parts = graph_.op_with_outputs(OpKind::Split, cut, {down},
                                              {{cut + ".compressed", joined(tokens_, {rank})},
                                               {cut + ".rope", joined(tokens_, {rope_size})}},
                                              AxisAttributes{compressed});
    const TensorId normed = latent_norm("kv_norm", parts[0], "kv_a_layernorm", rank);
    const DimId both = graph_.dim("nope_and_value_size", latent.nope_size + latent.value_size);
    const TensorId up = linear(ops_ + "attention.kv_up", normed, weights_ + "self_attn.kv_b_proj",
                               {rank}, {heads_[0], both}, false);
    const std::string cut_up = ops_ + "attention.kv_up_split";
    const auto pieces =
        graph_.op_with_outputs(OpKind::Split, cut_up, {up},
                               {{cut_up + ".k", joined(tokens_, {heads_[0], nope})},
                                {cut_up + ".v", joined(tokens_, {heads_[0], value_part})}},
                               AxisAttributes{both});
    const TensorId k_rope =
        graph_.elementwise(OpKind::Rope, ops_ + "attention.k_rope", parts[1], rope);
    const TensorId k =
        graph_.op(OpKind::Concat, ops_ + "attention.k", {pieces[0], k_rope}, {},
                  joined(tokens_, {heads_[0], query_size}), AxisAttributes{query_size});
    // Values have a place of their own, so that nothing of the keys is kept with them.
    const TensorId v = graph_.op(OpKind::Concat, ops_ + "attention.v", {pieces[1]}, {},
                                 joined(tokens_, {heads_[0], value}), AxisAttributes{value});
    return {q, k, v};
  }

  TensorId latent_norm(const char* name, TensorId x, const char* weight, DimId rank) {
    return graph_.norm(spec_.norm, fmt::format("{}attention.{}", ops_, name), x,
                       fmt::format("{}self_attn.{}", weights_, weight), {rank},
                       {.epsilon = spec_.latent->epsilon});
  }

  TensorId latent_queries(TensorId x, DimId query_size) {
    const Dims result = {heads_[0], query_size};
    if (!spec_.latent->query_rank) {
      return linear(ops_ + "attention.q", x, weights_ + "self_attn.q_proj", {hidden_}, result,
                    false);
    }
    const DimId rank = graph_.dim("query_rank", *spec_.latent->query_rank);
    TensorId q = linear(ops_ + "attention.q_down", x, weights_ + "self_attn.q_a_proj", {hidden_},
                        {rank}, spec_.qkv_bias);
    q = latent_norm("q_norm", q, "q_a_layernorm", rank);
    return linear(ops_ + "attention.q_up", q, weights_ + "self_attn.q_b_proj", {rank}, result,
                  false);
  }

  TensorId mlp(TensorId x) {
    const DimId ffn = graph_.dim("ffn", spec_.ffn);
    const TensorId out = feed_forward(ops_ + "ffn.", x, weights_, ffn);
    return graph_.dropout(ops_ + "ffn.dropout", out, spec_.residual_dropout);
  }

  TensorId feed_forward(const std::string& ops, TensorId x, const std::string& weights,
                        DimId width) {
    const bool piece = spec_.concatenated_gate;
    const TensorId up = linear(ops + "up", x, weights + names_.up, {hidden_}, {width},
                               spec_.ffn_bias, piece ? "[up]" : "");
    TensorId active = up;
    if (spec_.gated) {
      const TensorId gate = linear(ops + "gate", x, weights + names_.gate, {hidden_}, {width},
                                   spec_.ffn_bias, piece ? "[gate]" : "");
      active = graph_.gated(ops + "activation", spec_.function, gate, up);
    } else {
      active = graph_.elementwise(OpKind::Activation, ops + "activation", up,
                                  FunctionAttributes{spec_.function});
    }
    return linear(ops + "down", active, weights + names_.down, {width}, {hidden_}, spec_.ffn_bias);
  }

  TensorId experts(TensorId x) {
    const ExpertsSpec& spec = *spec_.experts;
    const DimId experts = graph_.dim("experts", spec.experts);
    const DimId choices = graph_.dim("choices", spec.choices);
    const DimId width = graph_.dim("expert_ffn", spec.width);
    const TensorId logits = linear(ops_ + "ffn.router.logits", x, weights_ + names_.router,
                                   {hidden_}, {experts}, false);
    const std::string route = ops_ + "ffn.router.choice";
    const Dims chosen = joined(tokens_, {choices});
    std::vector<WeightId> bias;
    if (spec.router.bias_rate > 0) {
      bias = {graph_.weight(weights_ + names_.router + ".e_score_correction_bias", {experts})};
    }
    const auto routed = graph_.op_with_outputs(
        OpKind::Router, route, {logits},
        {{route + ".share", chosen}, {route + ".expert", chosen, Element::Index}}, spec.router,
        bias);
    const TensorId copies = graph_.op(OpKind::Dispatch, ops_ + "ffn.experts.dispatch",
                                      {x, routed[1]}, {}, joined(chosen, {hidden_}), {});
    const auto expert_linear = [&](const char* name, const std::string& weight, TensorId in,
                                   DimId from, DimId to) {
      const WeightId id = graph_.weight(
          fmt::format("{}{}.*.{}.weight", weights_, names_.experts, weight), {experts, to, from});
      return graph_.op(OpKind::ExpertMatmul, fmt::format("{}ffn.experts.{}", ops_, name),
                       {in, routed[1]}, {id}, joined(chosen, {to}), {});
    };
    const auto last_part = [](const std::string& path) {
      return path.substr(path.find_last_of('.') + 1);
    };
    const TensorId up = expert_linear("up", last_part(names_.up), copies, hidden_, width);
    const TensorId gate = expert_linear("gate", last_part(names_.gate), copies, hidden_, width);
    const TensorId active = graph_.gated(ops_ + "ffn.experts.activation", spec_.function, gate, up);
    const TensorId down = expert_linear("down", last_part(names_.down), active, width, hidden_);
    const TensorId sum = graph_.op(OpKind::Combine, ops_ + "ffn.experts.combine", {down, routed[0]},
                                   {}, joined(tokens_, {hidden_}), {});
    return spec.shared_width ? graph_.add(ops_ + "ffn.join", sum, shared_expert(x)) : sum;
  }

  TensorId shared_expert(TensorId x) {
    const DimId width = graph_.dim("shared_ffn", *spec_.experts->shared_width);
    const auto in_shared = [&](const std::string& path) {
      return fmt::format("{}{}.{}", weights_, names_.shared_experts,
                         path.substr(path.find_last_of('.') + 1));
    };
    const std::string ops = ops_ + "ffn.shared.";
    const TensorId up = linear(ops + "up", x, in_shared(names_.up), {hidden_}, {width}, false);
    const TensorId gate =
        linear(ops + "gate", x, in_shared(names_.gate), {hidden_}, {width}, false);
    const TensorId active = graph_.gated(ops + "activation", spec_.function, gate, up);
    const TensorId out =
        linear(ops + "down", active, in_shared(names_.down), {width}, {hidden_}, false);
    if (!spec_.experts->shared_gate) return out;
    const DimId one = graph_.dim("one", 1);
    const TensorId weight =
        linear(ops + "share", x, weights_ + names_.shared_gate, {hidden_}, {one}, false);
    // The share has one entry a token: a gate that lacks the hidden dimension.
    const TensorId share =
        graph_.op_with_outputs(OpKind::Split, ops + "share_entry", {weight},
                               {{ops + "share_entry", tokens_}}, AxisAttributes{one})[0];
    return graph_.gated(ops + "weigh", Function::Sigmoid, share, out);
  }

  // The loss of predicting the token after the next `further` ones.
  void add_head(const std::string& ops, TensorId x, std::int64_t further, OpAttributes share) {
    const DimId vocabulary = graph_.dim("vocabulary", spec_.vocabulary);
    if (further == 0) {
      head_ = spec_.tied ? table_
                         : graph_.weight(names_.head + ".weight", {vocabulary, embedding_width_});
    }
    TensorId logits =
        graph_.linear(ops + "logits", x, {head_, std::nullopt}, joined(tokens_, {vocabulary}));
    if (spec_.logit_scale) logits = scaled(ops + "scale", logits, *spec_.logit_scale);
    const TensorId labels = graph_.input(shifted("labels", further), tokens_, Element::Index);
    graph_.op(OpKind::CrossEntropy, ops + "loss", {logits, labels}, {}, {}, std::move(share));
  }

  static std::string shifted(const std::string& input, std::int64_t further) {
    return further == 0 ? input : fmt::format("{}+{}", input, further);
  }

  // Equations 21 to 25: the embedding of the token that is known by then joins what the layer
  // before found out; embedding and head are the model's own.
  void predict_further(TensorId hidden) {
    const auto count = static_cast<double>(spec_.further_tokens);
    for (std::int64_t further = 1; further <= spec_.further_tokens; ++further) {
      name_layer(spec_.layers + further - 1, fmt::format("further.{}.", further));
      const DimId pair = graph_.dim("hidden_and_token", 2 * spec_.hidden);
      const TensorId tokens = graph_.input(shifted("tokens", further), tokens_, Element::Index);
      const TensorId token =
          norm(ops_ + "token_norm", graph_.embedding(ops_ + "tokens", tokens, table_),
               weights_ + "enorm", {hidden_});
      const TensorId before = norm(ops_ + "hidden_norm", hidden, weights_ + "hnorm", {hidden_});
      const TensorId both = graph_.op(OpKind::Concat, ops_ + "join", {token, before}, {},
                                      joined(tokens_, {pair}), AxisAttributes{pair});
      const TensorId x =
          linear(ops_ + "project", both, weights_ + "eh_proj", {pair}, {hidden_}, false);
      hidden = add_layer(x, spec_.layers - 1);
      add_head(ops_ + "head.",
               norm(ops_ + "head.norm", hidden, weights_ + "shared_head.norm", {hidden_}), further,
               ScaleAttributes{spec_.further_factor / count});
    }
  }

  TensorId norm(const std::string& name, TensorId x, const std::string& weight, const Dims& over) {
    return graph_.norm(spec_.norm, name, x, weight, over, spec_.norm_attributes);
  }

  // `piece` names a part of a stored weight.
  TensorId linear(const std::string& name, TensorId x, const std::string& weight, const Dims& in,
                  const Dims& out, bool bias, const std::string& piece = "") {
    const Dims dims = spec_.input_major ? joined(in, out) : joined(out, in);
    LinearWeights weights{graph_.weight(weight + ".weight" + piece, dims), std::nullopt};
    if (bias) weights.bias = graph_.weight(weight + ".bias" + piece, out);
    Dims result = graph_.dims_of(x);
    result.resize(result.size() - in.size());
    return graph_.linear(name, x, weights, joined(result, out));
  }

  const DecoderSpec& spec_;
  const DecoderNames& names_;
  GraphBuilder graph_;
  DimId hidden_, head_size_, embedding_width_;
  Dims heads_, query_heads_, tokens_;
  WeightId table_, head_;
  std::string weights_, ops_;  // prefixes of the layer being built
};

}  // namespace

OpGraph make_decoder_graph(const DecoderSpec& spec, const std::string& name,
                           const std::string& source) {
  return DecoderGraph(spec, name).build(source);
}

}  // namespace meshwright
