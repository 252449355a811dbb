#include "costmodel/model/op.h"

#include <array>
#include <utility>

namespace meshwright {
namespace {

constexpr std::array<std::pair<OpKind, std::string_view>, 21> kKinds = {{
    {OpKind::Embedding, "embedding"},
    {OpKind::RelativeBias, "relative_bias"},
    {OpKind::Matmul, "matmul"},
    {OpKind::ExpertMatmul, "expert_matmul"},
    {OpKind::LayerNorm, "layer_norm"},
    {OpKind::RmsNorm, "rms_norm"},
    {OpKind::Rope, "rope"},
    {OpKind::Attention, "attention"},
    {OpKind::Activation, "activation"},
    {OpKind::GatedActivation, "gated_activation"},
    {OpKind::Add, "add"},
    {OpKind::Scale, "scale"},
    {OpKind::Dropout, "dropout"},
    {OpKind::Split, "split"},
    {OpKind::Concat, "concat"},
    {OpKind::SelectFirst, "select_first"},
    {OpKind::Router, "router"},
    {OpKind::Dispatch, "dispatch"},
    {OpKind::Combine, "combine"},
    {OpKind::CrossEntropy, "cross_entropy"},
    {OpKind::Generic, "generic"},
}};

constexpr std::array<std::pair<Function, std::string_view>, 6> kFunctions = {{
    {Function::Gelu, "gelu"},
    {Function::GeluTanh, "gelu_tanh"},
    {Function::Silu, "silu"},
    {Function::Relu, "relu"},
    {Function::Tanh, "tanh"},
    {Function::Sigmoid, "sigmoid"},
}};

template <class Table, class Value>
std::string_view text_in(const Table& table, Value value) {
  for (const auto& [entry, text] : table) {
    if (entry == value) return text;
  }
  return "";
}

template <class Value, class Table>
std::optional<Value> value_in(const Table& table, std::string_view text) {
  for (const auto& [entry, name] : table) {
    if (name == text) return entry;
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_text(OpKind kind) { return text_in(kKinds, kind); }
std::string_view to_text(Function function) { return text_in(kFunctions, function); }
std::optional<OpKind> parse_op_kind(std::string_view text) {
  return value_in<OpKind>(kKinds, text);
}
std::optional<Function> parse_function(std::string_view text) {
  return value_in<Function>(kFunctions, text);
}

}  // namespace meshwright
