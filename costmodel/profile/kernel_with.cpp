#include <algorithm>
#include <cstdlib>

#include "costmodel/profile/kernel_shape.h"

namespace meshwright {
namespace {

using Shape = std::vector<std::int64_t>;

Operand real(Shape sizes) { return dense_operand(std::move(sizes)); }
Operand index(Shape sizes) { return dense_operand(std::move(sizes), BufferElement::Index); }
Operand single(Shape sizes) { return dense_operand(std::move(sizes), BufferElement::Single); }
Operand numbers(Shape sizes) { return dense_operand(std::move(sizes), BufferElement::Double); }

using Operands = std::vector<Operand>;

Operands matmul_operands(Phase phase, const Shape& s) {
  const Operand x = real({s[0], s[2]}), weight = real({s[2], s[1]}), y = real({s[0], s[1]});
  if (phase == Phase::Forward) return {x, weight, y};
  if (phase == Phase::InputGradient) return {weight, y, x};
  return {x, y, weight};
}

constexpr std::string_view kDropout = " dropout";

// The head sizes of a variant such as "causal 192+128 dropout".
std::optional<std::pair<std::int64_t, std::int64_t>> head_sizes(std::string_view variant) {
  if (variant.ends_with(kDropout)) variant.remove_suffix(kDropout.size());
  const auto blank = variant.find(' ');
  if (blank == variant.npos) return {};
  const std::string text(variant.substr(blank + 1));
  constexpr std::size_t kLongest = 12;
  if (text.empty() || text.size() > kLongest ||
      text.find_first_not_of("0123456789+") != text.npos) {
    return {};
  }
  const auto plus = text.find('+');
  const std::int64_t first = std::atoll(text.c_str());
  const std::int64_t second = plus == text.npos ? first : std::atoll(text.c_str() + plus + 1);
  if (first < 1 || second < 1) return {};
  return std::pair(first, second);
}

std::vector<DimPlace> whole_places(const Extents& sizes) {
  std::vector<DimPlace> places;
  for (const std::int64_t size : sizes) places.push_back({{{0, size}}, size});
  return places;
}

std::optional<Kernel> attention_with(const ShapedKernel& shaped) {
  const auto sizes = head_sizes(shaped.kernel.variant);
  if (!sizes) return {};
  const std::int64_t heads = shaped.shape[0], sequence = shaped.shape[1];
  const Operand q = real({1, sequence, heads, sizes->first});
  const Operand v = real({1, sequence, heads, sizes->second});
  const Operand lse = real({1, heads, sequence});
  const bool forward = shaped.kernel.phase == Phase::Forward;
  Kernel kernel{.kind = KernelKind::Attention, .phase = shaped.kernel.phase};
  kernel.operands = forward ? Operands{q, q, v, v, lse} : Operands{q, q, v, v, lse, v, q, q, v};
  kernel.attributes =
      AttentionAttributes{.causal = shaped.kernel.variant.starts_with("causal"),
                          .scale = 0.125,
                          .dropout = shaped.kernel.variant.ends_with(kDropout) ? 0.1 : 0.0};
  kernel.place = whole_places({1, heads, sequence, sequence});
  return kernel;
}

Operands norm_operands(const ShapedKernel& shaped) {
  const bool layer = shaped.kernel.kind == KernelKind::LayerNorm;
  const Operand x = real(shaped.shape), gain = real({shaped.shape[1]}),
                row = real({shaped.shape[0]});
  switch (shaped.kernel.phase) {
    case Phase::Forward:
      return layer ? Operands{x, gain, gain, x, row, row} : Operands{x, gain, x, row};
    case Phase::InputGradient:
      return layer ? Operands{x, gain, row, row, x, x} : Operands{x, gain, row, x, x};
    case Phase::WeightGradient:
    case Phase::Step:
      break;
  }
  return layer ? Operands{x, row, row, x, gain, gain} : Operands{x, row, x, gain};
}

Operands elementwise_operands(const ShapedKernel& shaped) {
  const bool forward = shaped.kernel.phase == Phase::Forward;
  const Operand x = real(shaped.shape);
  switch (shaped.kernel.kind) {
    case KernelKind::Activation:
      return forward ? Operands{x, x} : Operands{x, x, x};
    case KernelKind::GatedActivation:
      return forward ? Operands{x, x, x} : Operands{x, x, x, x, x};
    case KernelKind::Add:
      break;
    default:
      return {x, x};
  }
  if (shaped.kernel.variant.empty()) return {x, x, x};
  constexpr std::int64_t kColumns = 256;
  if (shaped.shape[0] % kColumns != 0) return {};
  const Operand matrix = real({shaped.shape[0] / kColumns, kColumns});
  Operand row = matrix;
  row.strides = {0, 1};
  return {matrix, row, matrix};
}

Operands other_operands(const ShapedKernel& shaped) {
  const Shape& s = shaped.shape;
  const bool forward = shaped.kernel.phase == Phase::Forward;
  switch (shaped.kernel.kind) {
    case KernelKind::Embedding: {
      // A table of as many rows as are looked up, at most a usual vocabulary.
      const std::int64_t rows = std::min<std::int64_t>(s[0], 32768);
      if (forward) return {index({s[0]}), real({rows, s[1]}), real(s)};
      return {index({s[0]}), real({s[0], s[1]}), real({s[2], s[1]})};
    }
    case KernelKind::RowSums: {
      const Operand x = real(s), gain = real({s[1]}), row = real({s[0]}), sums = numbers({s[0], 2});
      return forward ? Operands{x, sums} : Operands{x, gain, row, row, x, sums};
    }
    case KernelKind::LossLargest:
      return {real(s), real({s[0]})};
    case KernelKind::LossSums:
      return {real(s), index({s[0]}), real({s[0]}), real({s[0], 2})};
    case KernelKind::Loss:
      if (forward) return {index(s), real(s), real({s[0], 2}), numbers({1})};
      return {real(s), index({s[0]}), real({s[0]}), real({s[0], 2}), real(s)};
    case KernelKind::NormLargest:
      return {real(s), numbers({1})};
    case KernelKind::NormSums:
      return {real(s), numbers({1}), numbers({2})};
    case KernelKind::ClipFactor:
      return {numbers({2}), numbers({2})};
    case KernelKind::AdamW:
      if (shaped.kernel.variant.empty()) {
        return {real(s), numbers({2}), real(s), real(s), real(s)};
      }
      return {real(s), numbers({2}), real(s), single(s), single(s), single(s)};
    default:
      return {};
  }
}

std::size_t dims_of(const KernelClass& kernel) {
  const bool forward = kernel.phase == Phase::Forward;
  switch (kernel.kind) {
    case KernelKind::Matmul:
    case KernelKind::Rope:
      return 3;
    case KernelKind::Embedding:
      return forward ? 2 : 3;
    case KernelKind::RowSums:
    case KernelKind::LayerNorm:
    case KernelKind::RmsNorm:
    case KernelKind::Attention:
    case KernelKind::LossLargest:
    case KernelKind::LossSums:
      return 2;
    case KernelKind::Loss:
      return forward ? 1 : 2;
    default:
      return 1;
  }
}

Operands operands_with(const ShapedKernel& shaped) {
  switch (shaped.kernel.kind) {
    case KernelKind::Matmul:
      return matmul_operands(shaped.kernel.phase, shaped.shape);
    case KernelKind::LayerNorm:
    case KernelKind::RmsNorm:
      return norm_operands(shaped);
    case KernelKind::Rope: {
      const Operand x = real({1, shaped.shape[0], shaped.shape[1], shaped.shape[2]});
      return {x, x};
    }
    case KernelKind::Activation:
    case KernelKind::GatedActivation:
    case KernelKind::Scale:
    case KernelKind::Dropout:
    case KernelKind::Add:
    case KernelKind::Sum:
      return elementwise_operands(shaped);
    default:
      return other_operands(shaped);
  }
}

// How many of the last operands are written.
std::size_t written_count(const Kernel& kernel) {
  const bool forward = kernel.phase == Phase::Forward;
  switch (kernel.kind) {
    case KernelKind::LayerNorm:
      return forward ? 3 : (kernel.phase == Phase::WeightGradient ? 2 : 1);
    case KernelKind::RmsNorm:
      return forward ? 2 : 1;
    case KernelKind::Attention:
      return forward ? 2 : 3;
    case KernelKind::GatedActivation:
      return forward ? 1 : 2;
    case KernelKind::AdamW:
      return kernel.operands.size() - 2;
    default:
      return 1;
  }
}

void mark_written(Kernel& kernel) {
  for (std::size_t i = 0; i < written_count(kernel); ++i) {
    kernel.operands[kernel.operands.size() - 1 - i].written = true;
  }
}

// None: the variant names no attributes of the kind.
std::optional<OpAttributes> attributes_with(const ShapedKernel& shaped) {
  switch (shaped.kernel.kind) {
    case KernelKind::RowSums:
    case KernelKind::LayerNorm:
    case KernelKind::RmsNorm:
      return NormAttributes{};
    case KernelKind::Rope:
      return RopeAttributes{.rotated = shaped.shape[2] / 2 * 2};
    case KernelKind::Activation:
    case KernelKind::GatedActivation: {
      const auto function = parse_function(shaped.kernel.variant);
      if (!function) return {};
      return FunctionAttributes{*function};
    }
    case KernelKind::Scale:
      return ScaleAttributes{0.5};
    case KernelKind::Dropout:
      return DropoutAttributes{0.1};
    default:
      return OpAttributes{};
  }
}

}  // namespace

std::optional<Kernel> kernel_with(const ShapedKernel& shaped) {
  if (shaped.shape.size() != dims_of(shaped.kernel)) return {};
  if (shaped.kernel.kind == KernelKind::Attention) {
    auto attention = attention_with(shaped);
    if (attention) mark_written(*attention);
    return attention;
  }
  const auto attributes = attributes_with(shaped);
  Operands operands = operands_with(shaped);
  if (!attributes || operands.empty()) return {};
  Kernel kernel{.kind = shaped.kernel.kind,
                .phase = shaped.kernel.phase,
                .operands = std::move(operands),
                .attributes = *attributes};
  kernel.accumulate = shaped.kernel.variant == "accumulate";
  if (kernel.kind == KernelKind::Dropout || kernel.kind == KernelKind::Rope) {
    kernel.place = whole_places(kernel.operands[0].sizes);
  }
  mark_written(kernel);
  if (kernel.kind == KernelKind::NormLargest || kernel.kind == KernelKind::NormSums ||
      kernel.kind == KernelKind::AdamW) {
    kernel.ranges = {{.count = shaped.shape[0], .decay = true}};
  }
  // A variant that is not among those made above.
  if (shape_of(kernel) != shaped) return {};
  return kernel;
}

}  // namespace meshwright
