#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "costmodel/model/import/config_reader.h"
#include "costmodel/model/op.h"
#include "costmodel/model/op_graph.h"

namespace meshwright {

// How a decoder-only family names its weights, below the prefix of the class.
struct DecoderNames {
  std::string embedding, embedding_norm, positions, project_in, project_out;
  std::string layers;                            // "layers" of "layers.3.self_attn.q_proj.weight"
  std::string attention_norm, ffn_norm;          // before them, or the only ones
  std::string attention_end_norm, ffn_end_norm;  // after them, where there are two
  std::string qkv, q, k, v, q_norm, k_norm, output;
  std::string gate, up, down;
  std::string router, experts, shared_experts, shared_gate;
  std::string final_norm;
  std::string head;  // stands beside the prefix, not below it
};

enum class QkvForm {
  Separate,
  ThreeFirst,    // one weight for all, laid out (3, heads, size)
  HeadsFirst,    // one weight for all, laid out (heads, 3, size)
  Concatenated,  // one stored weight: all queries, then keys, then values
};

// Where the norms of attention and feed-forward stand, f being either of them.
enum class NormPlace {
  First,     // x + f(norm(x))
  AfterSum,  // norm(x + f(x))
  Last,      // x + norm(f(x))
  Around,    // x + norm(f(norm(x)))
};

enum class QkNorm {
  None,
  EachHead,
  AllHeads,  // of a token together
};

struct LearnedPositions {
  std::int64_t rows = 0;
  std::int64_t reserved = 0;  // rows that no token's position uses
};
struct AlibiPositions {};
using Positions = std::variant<LearnedPositions, RopeAttributes, AlibiPositions>;

struct ExpertsSpec {
  std::int64_t experts = 0, choices = 0, width = 0;
  std::optional<std::int64_t> shared_width;
  bool shared_gate = false;
  RouterAttributes router;
};

// Multi-head latent attention: queries, keys and values come from compressed vectors.
struct LatentSpec {
  std::optional<std::int64_t> query_rank;
  std::int64_t key_value_rank = 0, nope_size = 0, rope_size = 0, value_size = 0;
  double score_factor = 1;
  double epsilon = 1e-6;  // of the norms of compressed vectors: the class gives them no other
};

// Everything that tells one decoder-only model from another.
struct DecoderSpec {
  DecoderNames names;
  std::string prefix;  // "model." for a class with a head, empty for the bare model
  bool has_head = true;
  bool tied = false;

  std::int64_t vocabulary = 0, hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_size = 0;
  std::int64_t embedding_width = 0;  // equal to hidden, except where it is projected
  Positions positions;
  bool embedding_norm = false;
  std::optional<double> embedding_scale;
  // Of what attention and feed-forward add, of logits, and of scores instead of 1 /
  // sqrt(head_size).
  std::optional<double> branch_scale, logit_scale, score_scale;
  double embedding_dropout = 0, attention_dropout = 0, residual_dropout = 0;

  OpKind norm = OpKind::LayerNorm;
  NormAttributes norm_attributes;
  NormPlace norms = NormPlace::First;
  bool final_norm = true;
  bool parallel_residual = false;  // attention and feed-forward read the same input

  bool input_major = false;  // weights are stored [in, out]
  QkvForm qkv_form = QkvForm::Separate;
  bool qkv_bias = false, output_bias = false, ffn_bias = false;
  QkNorm qk_norm = QkNorm::None;
  std::optional<std::int64_t> window;
  std::optional<LatentSpec> latent;

  Function function = Function::GeluTanh;
  bool gated = false;
  bool concatenated_gate = false;  // gate and up are one stored weight
  std::int64_t ffn = 0;
  std::optional<ExpertsSpec> experts;
  std::vector<bool> sparse;  // per layer: whether its feed-forward is the experts'

  // Layers after the last, each of which predicts a token further on (DeepSeek-V3, arXiv
  // 2412.19437, section 2.2), and what the mean of their losses counts for.
  std::int64_t further_tokens = 0;
  double further_factor = 1;
};

// Whether anything but the embedding is scaled.
inline bool has_scales(const DecoderSpec& spec) {
  return spec.branch_scale || spec.logit_scale || spec.score_scale;
}

// The families whose graph is that of DecoderSpec. None: not such a family.
std::optional<DecoderSpec> read_decoder_spec(const std::string& family, const ConfigReader& config);

OpGraph make_decoder_graph(const DecoderSpec& spec, const std::string& name,
                           const std::string& source);

}  // namespace meshwright
