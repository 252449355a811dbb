#include "costmodel/price/kernel_cost.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>

#include "costmodel/base/checked.h"
#include "costmodel/price/cost_model.h"

namespace meshwright {
namespace {

double width(Precision precision) {
  return static_cast<double>(bytes_per_element(precision).value());
}

double compute_rate(const DeviceType& device, const DeviceFit& fit, Precision precision) {
  return peak_of(device, precision).value() * fit.sustained;
}

Seconds memory_time(double bytes, double share, const DeviceType& device) {
  return Seconds(bytes / (device.memory_bandwidth.value.value() * share));
}

// Of the work that libraries cut a product into: the largest tile whose sums fit into the
// registers, and smaller ones for small products.
struct Tile {
  double m = 0, n = 0;
};
constexpr std::array kTiles = {Tile{256, 128}, Tile{128, 256}, Tile{128, 128},
                               Tile{128, 64},  Tile{64, 128},  Tile{64, 64}};
constexpr std::array kSplits = {1, 2, 3, 4, 6, 8, 12, 16};  // parts of K, computed side by side
// The shortest part worth an addition of its own; where tiles alone fill the device, libraries
// split only long sums: A100's cuBLAS between K of 5120 and 7168, in two (published/kernels.csv).
constexpr double kShortestPart = 256, kShortestPartIfFull = 3072;
// Assumed: what it takes to begin to add the parts up.
constexpr double kSplitStart = 1e-6;
// Arithmetic and memory traffic overlap, but not completely: together they take the norm of
// this order of both.
constexpr double kOverlapNorm = 4;

double both(double a, double b) {
  const double most = std::max(a, b);
  if (most == 0) return 0;
  return most * std::pow(std::pow(a / most, kOverlapNorm) + std::pow(b / most, kOverlapNorm),
                         1 / kOverlapNorm);
}

// Tile and wave quantization (NVIDIA, "Matrix multiplication background user's guide"): a product
// is cut into blocks, the multiprocessors take one each, and the last wave takes as long as a full
// one. How much of that is seen is the fitted exponent, because blocks do not start together. A
// tile loads (Tm + Tn) K elements to compute Tm Tn K, so small ones wait for their operands; and
// each costs a start and an end, as if K were longer. What takes `enough` without a last wave is
// not asked about further.
double tiled_time(const GemmShape& shape, Tile tile, int splits, double rate,
                  double multiprocessors, const GemmFit& fit, double enough) {
  const double tiles = std::ceil(static_cast<double>(shape.m) / tile.m) *
                       std::ceil(static_cast<double>(shape.n) / tile.n) *
                       static_cast<double>(shape.batch);
  double k = static_cast<double>(shape.k);
  if (splits > 1) {
    k = std::max(k / splits, tiles < multiprocessors ? kShortestPart : kShortestPartIfFull);
  }
  const double waves = tiles * splits / multiprocessors;
  const auto loading = [&](Tile t) { return 1 + fit.tile_load * (1 / t.m + 1 / t.n); };
  const double one = rate * fit.share / multiprocessors * (loading(kTiles.front()) / loading(tile));
  const auto time_of = [&](double counted) {
    return counted * 2 * tile.m * tile.n * (k + fit.ramp) / one;
  };
  const double least = time_of(std::max(1.0, waves));
  if (waves < 1 || least >= enough) return least;
  return time_of(waves * std::pow(std::ceil(waves) / waves, fit.quantization));
}

// The best tile and number of parts of K, which fill a last wave or a device that has few tiles
// (NVIDIA, CUTLASS, "Efficient GEMM in CUDA", on split-K); the parts write and read their sums in
// fp32 besides, mostly in the cache.
double best_tiled_time(const GemmShape& shape, double rate, const DeviceType& device,
                       const GemmFit& fit) {
  const auto multiprocessors = static_cast<double>(device.multiprocessors->value);
  const double sums = 8.0 * static_cast<double>(shape.batch) * static_cast<double>(shape.m) *
                      static_cast<double>(shape.n);
  double best = std::numeric_limits<double>::infinity();
  for (const int splits : kSplits) {
    if (splits > 1 && static_cast<double>(shape.k) <= kShortestPart) break;
    const double adding =
        splits == 1 ? 0 : memory_time(sums * splits, fit.split_share, device).value() + kSplitStart;
    if (adding >= best) break;
    for (const Tile tile : kTiles) {
      const double own = tiled_time(shape, tile, splits, rate, multiprocessors, fit, best - adding);
      best = std::min(best, own + adding);
    }
  }
  return best;
}

// Products use tensor cores well only if their sides are multiples of 16 bytes (NVIDIA, "Matrix
// multiplication background user's guide"), which heads may not be. How much longer the products of
// scores then take is chosen from runs that differ in it: hidden size 13824 with 128 heads, which
// are 108 each, against 96 and 64 (BigScience, chronicles of the 176B model).
double times_longer_odd_heads(const AttentionShape& a, Precision precision,
                              const DeviceType& device) {
  constexpr double kTimesLonger = 10;
  const std::int64_t aligned = 16 / bytes_per_element(precision).value();
  const bool odd = a.query_size % aligned != 0 || a.value_size % aligned != 0;
  return odd && device.multiprocessors ? kTimesLonger : 1;
}

double flops(const GemmShape& shape) {
  return 2.0 * static_cast<double>(shape.batch) * static_cast<double>(shape.m) *
         static_cast<double>(shape.n) * static_cast<double>(shape.k);
}

// Operands arrive in 16 bits: the moving one (not the weight, which is cast once a step) is read,
// its largest value found, read again and written in 8, by two kernels. What fits into the cache
// is there the second time; of what does not, less and less, as what is read last drives out what
// is needed first.
Seconds cast_time(const GemmShape& shape, const DeviceType& device, const DeviceFit& fit) {
  constexpr double kMoved = 2 + 2 + 1, kHeld = 2 + 1;  // bytes of an element
  const CastFit cast =
      fit.cast.value_or(CastFit{.share = fit.memory_share, .base_s = 2 * fit.launch_s});
  const double elements = static_cast<double>(shape.batch) * static_cast<double>(shape.m) *
                          static_cast<double>(shape.k);
  const double cache = device.l2 ? static_cast<double>(device.l2->value.value()) : 0;
  const double cached = cache > 0 ? std::clamp(2 - elements * kHeld / cache, 0.0, 1.0) : 0;
  return memory_time(elements * kMoved * (1 - cached * (1 - 1 / cast.cache_gain)), cast.share,
                     device) +
         Seconds(cast.base_s);
}

const GemmFit& gemm_fit(const DeviceFit& fit, Precision precision) {
  return precision == Precision::FP8 && fit.gemm_fp8 ? *fit.gemm_fp8 : fit.gemm;
}

double product_time(const GemmShape& shape, double rate, const DeviceType& device,
                    const GemmFit& fit) {
  const double arithmetic =
      device.multiprocessors
          ? best_tiled_time(shape, rate, device, fit)
          : flops(shape) / (rate * fit.share) *
                (1 + fit.ramp / static_cast<double>(std::max<std::int64_t>(shape.k, 1)));
  return both(
      arithmetic,
      memory_time(static_cast<double>(shape.moved.value()), fit.memory_share, device).value());
}

GemmShape score_product(const AttentionShape& a, std::int64_t m, std::int64_t n, std::int64_t k,
                        Precision precision) {
  const std::int64_t batch = checked_multiply(a.batch, a.heads);
  const std::int64_t elements = checked_product({batch, m, n}) + checked_product({batch, m, k}) +
                                checked_product({batch, k, n});
  return {.batch = batch, .m = m, .n = n, .k = k, .moved = bytes_per_element(precision) * elements};
}

double pairs(const AttentionShape& a) {
  return static_cast<double>(a.batch) * static_cast<double>(a.heads) *
         static_cast<double>(a.queries) * static_cast<double>(a.keys);
}

// Passes over the score matrix, in bytes read or written for each score. Forward: softmax reads
// and writes (fused), in the run's width; scale, mask and softmax by themselves read and write once
// each in fp32, with a cast before and after where the run is narrower; dropout reads, writes and
// writes a mask of one byte. Backward: the softmax's gradient reads the probabilities and their
// gradient and writes one; dropout reads the mask too.
struct ScorePasses {
  int kernels = 0;
  double bytes = 0;
};
ScorePasses score_passes(const AttentionShape& a, Phase phase, Precision precision,
                         AttentionKernel kernel) {
  constexpr double kWide = 4;
  const double narrow = width(precision);
  const double softmax = phase == Phase::Forward ? 2 : 3;
  ScorePasses passes{1, softmax * narrow};
  if (kernel != AttentionKernel::FusedSoftmax) {
    const double wide = std::max(narrow, kWide);
    passes = {3, (softmax + 2 + 2) * wide};
    if (narrow < wide) passes = {passes.kernels + 2, passes.bytes + 2 * (narrow + wide)};
  }
  if (a.dropout) passes = {passes.kernels + 1, passes.bytes + 2 * narrow + 1};
  return passes;
}

int score_products(Phase phase) { return phase == Phase::Forward ? 2 : 4; }

// Kernels that only move memory. The kernel before has mostly just written what they read: of a
// set of operands that does not fit into the cache, a part is still there. An A100's cache is read
// with 5120 bytes a clock (NVIDIA, "A100 tensor core GPU architecture"), 7.2 TB/s; writes and
// misses make it less, so twice and a half the memory's bandwidth is an assumption.
Seconds passing_time(double bytes, double set, const DeviceType& device, const DeviceFit& fit) {
  constexpr double kCacheGain = 2.5;
  const double cache = device.l2 ? static_cast<double>(device.l2->value.value()) : 0;
  const double cached = set <= cache ? 1 : cache / set;
  return memory_time(bytes * (1 - cached * (1 - 1 / kCacheGain)), fit.memory_share, device);
}

Seconds moving_time(const Kernel& kernel, Precision precision, const DeviceType& device,
                    const DeviceFit& fit) {
  const auto bytes = static_cast<double>(bytes_of(kernel, precision).value());
  return passing_time(bytes, bytes, device, fit);
}

// Of all pairs of queries and keys, those that kernels in blocks compute. A causal mask leaves half
// of them and a window w of k keys w/k - (w/k)^2/2; blocks that a mask's edge cuts are computed
// whole, and a window has two edges. Between blocks of a sequence whole pieces are seen or not.
double computed_share(const AttentionShape& a, const FlashFit& flash) {
  if (a.seen) return *a.seen;
  if (!a.causal) return 1;
  const auto keys = static_cast<double>(std::max<std::int64_t>(a.keys, 1));
  const double edge = flash.causal_ramp / keys / 2;
  const double causal = std::min(1.0, 0.5 + edge);
  if (!a.window || *a.window >= a.keys) return causal;
  const double seen = static_cast<double>(*a.window) / keys;
  return std::min(causal, seen - seen * seen / 2 + edge * (2 - seen));
}

GemmShape expert_shape(const Kernel& kernel, Precision precision) {
  const auto weight = std::ranges::find(kernel.operands, std::size_t{3},
                                        [](const Operand& o) { return o.sizes.size(); });
  const Extents& sizes = weight->sizes;  // [experts, k, n]
  const std::size_t rows_at = kernel.phase == Phase::InputGradient ? 1 : 0;
  const std::int64_t experts = sizes[0];
  const std::int64_t rows =
      (kernel.operands[rows_at].sizes[0] + experts - 1) / std::max<std::int64_t>(experts, 1);
  const Bytes moved = bytes_of(kernel, precision);
  switch (kernel.phase) {
    case Phase::InputGradient:
      return {.batch = experts, .m = rows, .n = sizes[1], .k = sizes[2], .moved = moved};
    case Phase::WeightGradient:
      return {.batch = experts, .m = sizes[1], .n = sizes[2], .k = rows, .moved = moved};
    default:
      return {.batch = experts, .m = rows, .n = sizes[2], .k = sizes[1], .moved = moved};
  }
}

// Blocks of queries per multiprocessor. Infinite where there is no notion of these.
double flash_waves(const AttentionShape& a, const DeviceType& device) {
  constexpr double kBlock = 128;
  if (!device.multiprocessors) return std::numeric_limits<double>::infinity();
  const double blocks = static_cast<double>(a.batch) * static_cast<double>(a.heads) *
                        std::ceil(static_cast<double>(a.queries) / kBlock);
  return std::max(blocks, 1.0) / static_cast<double>(device.multiprocessors->value);
}

// Logits, of the vocabulary and of routers, are computed in 16 bits where other products are in 8:
// so do Megatron-Core (output_layer is no Transformer Engine module) and torchtitan (its converter
// leaves "output" out).
Precision multiplied_in(const Kernel& kernel, Precision precision) {
  const bool logits = kernel.name.ends_with("logits");
  return precision == Precision::FP8 && logits ? Precision::BF16 : precision;
}

// What a product reads forward leaves the norm or activation before it in 8 bits, as Transformer
// Engine and compilers fuse them, and stays so for the gradient of the weight; what is cast by
// itself is the gradient of its result, once for both gradients.
Seconds trained_product_time(const Kernel& kernel, Precision precision, const DeviceType& device,
                             const DeviceFit& fit) {
  const Precision numbers = multiplied_in(kernel, precision);
  const GemmShape shape = gemm_shape(kernel, numbers);
  const Seconds time = kernel.kind == KernelKind::Matmul
                           ? gemm_time(shape, numbers, device, fit)
                           : one_by_one_time(shape, numbers, device, fit);
  const bool casts = numbers == Precision::FP8 && kernel.phase == Phase::InputGradient;
  return casts ? time + cast_time(shape, device, fit) : time;
}

}  // namespace

GemmShape gemm_shape(const Kernel& kernel, Precision precision) {
  if (kernel.kind == KernelKind::ExpertMatmul) return expert_shape(kernel, precision);
  assert(kernel.kind == KernelKind::Matmul);
  const Operand& first = kernel.operands[0];
  const Operand& second = kernel.operands[1];
  const Bytes moved = bytes_of(kernel, precision);
  if (kernel.phase == Phase::InputGradient) {  // weight [k, n], dy [.., n] -> [.., k]
    const std::int64_t n = second.sizes.back();
    return {.m = element_count(second) / n, .n = first.sizes.front(), .k = n, .moved = moved};
  }
  const std::int64_t k = first.sizes.back(), n = second.sizes.back();
  const std::int64_t m = element_count(first) / k;
  if (kernel.phase == Phase::WeightGradient) {  // x [.., k], dy [.., n] -> [k, n]
    return {.m = k, .n = n, .k = m, .moved = moved};
  }
  return {.m = m, .n = n, .k = k, .moved = moved};
}

AttentionShape attention_shape(const Kernel& kernel) {
  assert(kernel.kind == KernelKind::Attention);
  const auto& q = kernel.operands[0].sizes;
  const auto* attributes = std::get_if<AttentionAttributes>(&kernel.attributes);
  const bool others = kernel.place.size() == 4 && kernel.place[2].ranges != kernel.place[3].ranges;
  return {.batch = q[0],
          .heads = q[2],
          .queries = q[1],
          .keys = kernel.operands[1].sizes[1],
          .query_size = q[3],
          .value_size = kernel.operands[2].sizes[3],
          .causal = attributes && attributes->causal,
          .dropout = attributes && attributes->dropout > 0,
          .window = attributes ? attributes->window : std::nullopt,
          .seen = others ? std::optional(seen_share_of(kernel)) : std::nullopt};
}

Seconds gemm_time(const GemmShape& shape, Precision precision, const DeviceType& device,
                  const DeviceFit& fit) {
  return Seconds(
      product_time(shape, compute_rate(device, fit, precision), device, gemm_fit(fit, precision)));
}

Seconds one_by_one_time(const GemmShape& shape, Precision precision, const DeviceType& device,
                        const DeviceFit& fit) {
  const std::int64_t products = std::max<std::int64_t>(shape.batch, 1);
  GemmShape one = shape;
  one.batch = 1;
  one.moved = Bytes(shape.moved.value() / products);
  return gemm_time(one, precision, device, fit) * static_cast<double>(products);
}

Seconds benchmarked_gemm_time(const GemmShape& shape, Precision precision, const DeviceType& device,
                              const DeviceFit& fit) {
  const GemmFit& gemm = gemm_fit(fit, precision);
  const double cool = product_time(shape, peak_of(device, precision).value(), device, gemm);
  const Seconds product(cool * (1 + gemm.heat_slow_down * cool / (cool + gemm.heat_s)));
  return precision == Precision::FP8 ? product + cast_time(shape, device, fit) : product;
}

// FlashAttention-2 (Dao, arXiv 2307.08691, section 3.1): 2 products forward; backward repeats the
// scores and has 4 more. A causal mask halves them, but for the blocks on the diagonal.
Seconds flash_time(const AttentionShape& a, Phase phase, Precision precision,
                   const DeviceType& device, const DeviceFit& fit, AttentionKernel kernel) {
  assert(!stores_scores(kernel));
  const auto found = fit.flash.find(kernel);
  const FlashFit& flash = found != fit.flash.end() ? found->second : fit.flash.rbegin()->second;
  const auto size = static_cast<double>(a.query_size + a.value_size);
  const bool forward = phase == Phase::Forward;
  const double products =
      2 * pairs(a) * (forward ? size : 2 * size + static_cast<double>(a.query_size));
  const auto keys = static_cast<double>(std::max<std::int64_t>(a.keys, 1));
  const double computed = computed_share(a, flash);
  const double share = (forward ? flash.forward_share : flash.backward_share) *
                       (size / (size + 2 * flash.head_ramp));
  const double rate = compute_rate(device, fit, precision) * share;
  return Seconds(products * computed * (1 + flash.sequence_ramp / keys) *
                 (1 + flash.wave_ramp / flash_waves(a, device)) / rate);
}

Seconds unfused_attention_time(const AttentionShape& a, Phase phase, Precision precision,
                               const DeviceType& device, const DeviceFit& fit,
                               AttentionKernel kernel) {
  const double longer = times_longer_odd_heads(a, precision, device);
  const auto product = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return gemm_time(score_product(a, m, n, k, precision), precision, device, fit) * longer;
  };
  const double bytes = pairs(a) * score_passes(a, phase, precision, kernel).bytes;
  const double read_and_written = 2 * pairs(a) * width(precision);
  Seconds time = passing_time(bytes, read_and_written, device, fit);
  if (phase == Phase::Forward) {
    time += product(a.queries, a.keys, a.query_size) + product(a.queries, a.value_size, a.keys);
  } else {  // of the probabilities, values, queries, keys
    time += product(a.queries, a.keys, a.value_size) + product(a.keys, a.value_size, a.queries) +
            product(a.queries, a.query_size, a.keys) + product(a.keys, a.query_size, a.queries);
  }
  const auto launches = static_cast<double>(attention_launches(a, phase, precision, kernel));
  return time + Seconds(fit.launch_s * (launches - 1));
}

std::int64_t attention_launches(const AttentionShape& a, Phase phase, Precision precision,
                                AttentionKernel kernel) {
  if (!stores_scores(kernel)) return 1;
  return score_passes(a, phase, precision, kernel).kernels + score_products(phase);
}

AttentionKernel usable_kernel(AttentionKernel wanted, const AttentionShape& a) {
  constexpr std::int64_t kFewestKeys = 16, kMostKeys = 2048, kRowsPerBlock = 4;
  if (wanted != AttentionKernel::FusedSoftmax) return wanted;
  const bool fits = a.keys > kFewestKeys && a.keys <= kMostKeys && a.keys % kRowsPerBlock == 0 &&
                    checked_multiply(a.batch, a.heads) % kRowsPerBlock == 0;
  return fits ? wanted : AttentionKernel::Unfused;
}

Seconds kernel_time(const Kernel& kernel, Precision precision, const DeviceType& device,
                    const DeviceFit& fit, AttentionKernel attention) {
  const Seconds launch(fit.launch_s);
  if (kernel.kind == KernelKind::Matmul || kernel.kind == KernelKind::ExpertMatmul) {
    return trained_product_time(kernel, precision, device, fit) + launch;
  }
  if (kernel.kind == KernelKind::Attention) {
    const AttentionShape shape = attention_shape(kernel);
    // FP8 is a way to multiply by weights: attention is computed in what is between kernels.
    const Precision numbers = precision == Precision::FP8 ? Precision::BF16 : precision;
    const Seconds time =
        stores_scores(attention)
            ? unfused_attention_time(shape, kernel.phase, numbers, device, fit, attention)
            : flash_time(shape, kernel.phase, numbers, device, fit, attention);
    return Seconds(std::max(time.value(), moving_time(kernel, precision, device, fit).value())) +
           launch;
  }
  return moving_time(kernel, precision, device, fit) + launch;
}

}  // namespace meshwright
