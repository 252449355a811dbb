#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "costmodel/base/ids.h"

namespace meshwright {

// What an op computes. The operands' order is part of the kind; dimensions have names, so a
// kind says nothing about which of them are split over devices.
enum class OpKind {
  Embedding,        // (index [i..]; table [rows, f..]) -> [i.., f..]
  RelativeBias,     // (; table [buckets, heads]) -> [heads, queries, keys]
  Matmul,           // (x [n.., in..]; weight [out.., in..] or [in.., out..], bias?) -> [n.., out..]
  ExpertMatmul,     // (x, chosen expert; weight [experts, ..]): as Matmul, the expert chosen by row
  LayerNorm,        // (x; gain, bias?) over the dimensions of the gain
  RmsNorm,          // (x; gain) over the dimensions of the gain
  Rope,             // (x): rotates pairs of the last dimension by position
  Attention,        // (q [batch, queries, heads.., size], k, v [batch, keys, heads.., size], bias?)
  Activation,       // (x)
  GatedActivation,  // (gate, x): function(gate) * x; the gate may lack dimensions of x
  Add,              // (a, b?; weight?): operands may lack dimensions of the result
  Scale,            // (x): by a constant
  Dropout,          // (x)
  Split,            // (x) -> pieces along one dimension
  Concat,           // (a, b?; weight?) -> joined along one dimension; a alone is copied
  SelectFirst,      // (x): the first position of the second dimension
  Router,           // (logits [.., experts]; bias [experts]?) -> share [.., choices], chosen expert
                    // [.., choices]: the bias has a say in the choice, not in the share
  Dispatch,         // (x, chosen expert): a copy of each token for every expert it goes to
  Combine,          // (x [.., choices, f], share): sum over the choices
  CrossEntropy,     // (logits [.., vocabulary], label [..]) -> loss [], a mean, by a factor?
  Generic,          // anything else: known by its dimensions alone
};

enum class Function { Gelu, GeluTanh, Silu, Relu, Tanh, Sigmoid };

// As files and tables write them: "expert_matmul", "gelu_tanh".
std::string_view to_text(OpKind kind);
std::string_view to_text(Function function);
std::optional<OpKind> parse_op_kind(std::string_view text);
std::optional<Function> parse_function(std::string_view text);

struct NormAttributes {
  double epsilon = 1e-5;
  bool gain_plus_one = false;  // the stored gain is an offset from 1
  friend bool operator==(const NormAttributes&, const NormAttributes&) = default;
};

struct RopeAttributes {
  double theta = 10000;
  std::int64_t rotated = 0;  // how many entries of the last dimension turn
  std::int64_t first = 0;    // the first of them
  bool neighbours = false;   // pairs are entries 2i and 2i + 1, otherwise i and i + rotated / 2
  std::string scaling;       // the config's name for a change of frequencies, empty: unchanged
  // linear: all frequencies are divided by the factor. llama3: those that turn less than
  // `low_factor` times in the original positions are, those that turn more than `high_factor` times
  // are not, and between there is a straight line. yarn: the same with a line over whole pairs.
  double factor = 1, low_factor = 1, high_factor = 4;
  std::int64_t original_positions = 8192;
  double attention_factor = 1;  // of cosines and sines
  friend bool operator==(const RopeAttributes&, const RopeAttributes&) = default;
};

struct AttentionAttributes {
  bool causal = true;
  bool alibi = false;  // a bias linear in the distance, computed, not stored
  std::optional<std::int64_t> window;
  double scale = 1;
  double dropout = 0;
  friend bool operator==(const AttentionAttributes&, const AttentionAttributes&) = default;
};

struct FunctionAttributes {
  Function function = Function::Gelu;
  friend bool operator==(const FunctionAttributes&, const FunctionAttributes&) = default;
};

struct ScaleAttributes {
  double factor = 1;
  friend bool operator==(const ScaleAttributes&, const ScaleAttributes&) = default;
};

struct DropoutAttributes {
  double probability = 0;
  friend bool operator==(const DropoutAttributes&, const DropoutAttributes&) = default;
};

// For Split the dimension of the input that is cut, for Concat that of the output.
struct AxisAttributes {
  DimId dim;
  friend bool operator==(const AxisAttributes&, const AxisAttributes&) = default;
};

struct RouterAttributes {
  bool sigmoid = false;      // scores by sigmoid, otherwise by softmax
  bool renormalize = false;  // the chosen shares are scaled to sum to one
  std::int64_t groups = 1;   // experts are chosen from the best `chosen_groups` of these
  std::int64_t chosen_groups = 1;
  double factor = 1;
  // What the loss of an uneven choice counts for: 1 for every sequence whose tokens are spread
  // evenly over the experts, more for others (DeepSeek-V3, arXiv 2412.19437, equations 17 to 20).
  double balance = 0;
  // How far a step moves the bias: up for experts with fewer tokens than an equal share, down for
  // those with more (section 2.1.2).
  double bias_rate = 0;
  friend bool operator==(const RouterAttributes&, const RouterAttributes&) = default;
};

struct GenericAttributes {
  std::string what;
  friend bool operator==(const GenericAttributes&, const GenericAttributes&) = default;
};

using OpAttributes =
    std::variant<std::monostate, NormAttributes, RopeAttributes, AttentionAttributes,
                 FunctionAttributes, ScaleAttributes, DropoutAttributes, AxisAttributes,
                 RouterAttributes, GenericAttributes>;

enum class DimRole { Fixed, Batch, Sequence };

// A named dimension. Batch and sequence get their sizes when the model is used.
struct Dim {
  std::string name;
  DimRole role = DimRole::Fixed;
  std::int64_t size = 1;  // of a fixed dimension
  friend bool operator==(const Dim&, const Dim&) = default;
};

enum class Element { Real, Index };

struct Tensor {
  std::string name;
  std::vector<DimId> dims;
  Element element = Element::Real;
  bool needs_gradient = false;  // something trainable lies before it
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

}  // namespace meshwright
