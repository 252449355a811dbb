#include "costmodel/price/kernel_cost.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>

#include "tests/costmodel/cluster_examples.h"
#include "tests/costmodel/cost_examples.h"

namespace meshwright {
namespace {

// 100 multiprocessors of 1 TFLOP/s each, 1 TB/s of memory.
DeviceType device() {
  DeviceType type = small_device("device");
  type.memory_bandwidth = declared(BytesPerSecond(1e12));
  type.multiprocessors = declared<std::int64_t>(100);
  return type;
}

// Nothing but arithmetic at the full rate: waves do not matter, tiles cost nothing.
DeviceFit plain() {
  return {.name = "plain",
          .launch_s = 2e-6,
          .memory_share = 0.5,
          .sustained = 1,
          .gemm = {.share = 1,
                   .ramp = 0,
                   .tile_load = 0,
                   .quantization = 0,
                   .memory_share = 1,
                   .split_share = 1},
          .flash = {{AttentionKernel::Flash2, {.forward_share = 0.5, .backward_share = 0.25}}}};
}

// No bytes are moved, so only arithmetic counts.
GemmShape product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.m = m, .n = n, .k = k};
}

double time_of(const GemmShape& shape, const DeviceFit& fit) {
  return gemm_time(shape, Precision::FP16, device(), fit).value();
}

Kernel matmul(Phase phase, Operand first, Operand second, Operand result) {
  return {.kind = KernelKind::Matmul,
          .phase = phase,
          .operands = {std::move(first), std::move(second), std::move(result)}};
}

AttentionShape attention(bool causal) {
  return {.batch = 2,
          .heads = 8,
          .queries = 1024,
          .keys = 1024,
          .query_size = 64,
          .value_size = 64,
          .causal = causal};
}

double flash(const AttentionShape& shape, Phase phase, const DeviceFit& fit) {
  return flash_time(shape, phase, Precision::FP16, device(), fit, AttentionKernel::Flash2).value();
}

}  // namespace

TEST_CASE("a product of whole tiles takes its operations at the fitted share of the peak") {
  DeviceFit fit = plain();
  CHECK(time_of(product(4096, 4096, 1024), fit) == near(2.0 * 4096 * 4096 * 1024 / 100e12));
  fit.gemm.share = 0.5;
  CHECK(time_of(product(4096, 4096, 1024), fit) == near(2.0 * 4096 * 4096 * 1024 / 50e12));
  fit.sustained = 0.8;
  CHECK(time_of(product(4096, 4096, 1024), fit) == near(2.0 * 4096 * 4096 * 1024 / 40e12));
}

TEST_CASE("less than a wave takes as long as one tile") {
  // One multiprocessor works on a 64 x 64 tile; K is too short to be split.
  CHECK(time_of(product(64, 64, 256), plain()) == near(2.0 * 64 * 64 * 256 / 1e12));
  CHECK(time_of(product(10, 10, 256), plain()) == near(2.0 * 64 * 64 * 256 / 1e12));
}

TEST_CASE("quantized waves are whole") {
  DeviceFit fit = plain();
  fit.gemm.quantization = 1;
  // 101 tiles of 64 x 64 are two waves; 51 of 64 x 128 are one, twice as long.
  CHECK(time_of(product(64, 64 * 101, 256), fit) == near(2 * 2.0 * 64 * 64 * 256 / 1e12));
  fit.gemm.quantization = 0;
  CHECK(time_of(product(64, 64 * 101, 256), fit) == near(1.01 * 2.0 * 64 * 64 * 256 / 1e12));
}

TEST_CASE("small tiles wait for their operands") {
  DeviceFit fit = plain();
  fit.gemm.tile_load = 128;
  // 1 + 128 (1/64 + 1/64) = 5 against 1 + 128 (1/256 + 1/128) = 2.5 of the largest tile.
  CHECK(time_of(product(64, 64, 256), fit) == near(2 * 2.0 * 64 * 64 * 256 / 1e12));
}

TEST_CASE("starting and ending a tile counts as a longer K") {
  DeviceFit fit = plain();
  fit.gemm.ramp = 100;
  CHECK(time_of(product(4096, 4096, 200), fit) == near(2.0 * 4096 * 4096 * 300 / 100e12));
}

TEST_CASE("a long sum is split where tiles do not fill the device, and added up") {
  DeviceFit fit = plain();
  fit.gemm.split_share = 2;
  // Sums of 64 x 64 in 16 parts, written and read in fp32 at 2 TB/s, after 1 us.
  const double adding = 16 * 8.0 * 64 * 64 / 2e12 + 1e-6;
  CHECK(time_of(product(64, 64, 16 * 4096), fit) == near(2.0 * 64 * 64 * 4096 / 1e12 + adding));
  // Three parts of 200 elements take as long as parts of 256.
  CHECK(time_of(product(64, 64, 600), fit) ==
        near(2.0 * 64 * 64 * 256 / 1e12 + 3 * 8.0 * 64 * 64 / 2e12 + 1e-6));
}

TEST_CASE("where tiles fill the device only long sums are split") {
  DeviceFit fit = plain();
  fit.gemm = {.share = 1,
              .tile_load = 1e9,
              .quantization = 1,
              .memory_share = 1,
              .split_share = 1e9};  // the largest tile counts, adding up takes 1 us
  // 150 tiles of 256 x 128 on 100 multiprocessors: two waves, or three of half the length.
  const auto time = [&](std::int64_t k) { return time_of(product(256 * 15, 128 * 10, k), fit); };
  const double element = 2.0 * 256 * 128 / 1e12;
  CHECK(time(4096) == Approx(2 * 4096 * element));
  CHECK(time(8192) == Approx(3 * 4096 * element + 1e-6));
}

TEST_CASE("a product is never faster than its memory traffic or its arithmetic") {
  CHECK(rc::check([] {
    GemmShape shape =
        product(*rc::gen::inRange(1, 5000), *rc::gen::inRange(1, 5000), *rc::gen::inRange(1, 5000));
    shape.moved = Bytes(2 * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n));
    const double time = time_of(shape, plain());
    RC_ASSERT(time >= static_cast<double>(shape.moved.value()) / 1e12 * (1 - 1e-12));
    const double flops =
        2.0 * static_cast<double>(shape.m * shape.n) * static_cast<double>(shape.k);
    RC_ASSERT(time >= flops / 100e12 * (1 - 1e-12));
  }));
}

TEST_CASE("a larger product never takes less time") {
  CHECK(rc::check([] {
    DeviceFit fit = plain();
    fit.gemm = {.share = 0.9,
                .ramp = 120,
                .tile_load = 20,
                .quantization = 1,
                .memory_share = 0.8,
                .split_share = 1.5};
    const GemmShape small = product(*rc::gen::inRange(1, 3000), *rc::gen::inRange(1, 3000),
                                    *rc::gen::inRange(1, 15000));
    GemmShape large = small;
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        large.m += *rc::gen::inRange(1, 500);
        break;
      case 1:
        large.n += *rc::gen::inRange(1, 500);
        break;
      default:
        large.k += *rc::gen::inRange(1, 5000);
    }
    RC_ASSERT(time_of(small, fit) <= time_of(large, fit) * (1 + 1e-12));
  }));
}

TEST_CASE("8-bit products have their own fit and pay for the cast") {
  DeviceFit fit = plain();
  DeviceType fast = device();
  fast.peak.emplace(Precision::FP8, declared(200.0_TFLOPps));
  const GemmShape shape = product(4096, 4096, 1024);
  // 5 bytes for each of 4096 x 1024 elements at half of 1 TB/s, two launches of 2 us.
  const double cast = 5.0 * 4096 * 1024 / 0.5e12 + 4e-6;
  const double flops = 2.0 * 4096 * 4096 * 1024;
  CHECK(benchmarked_gemm_time(shape, Precision::FP8, fast, fit).value() ==
        near(flops / 200e12 + cast));
  fit.gemm_fp8 = fit.gemm;
  fit.gemm_fp8->share = 0.5;
  CHECK(benchmarked_gemm_time(shape, Precision::FP8, fast, fit).value() ==
        near(flops / 100e12 + cast));
}

TEST_CASE("a cast of what fits into the cache is faster, a larger one less so") {
  DeviceFit fit = plain();
  fit.cast = CastFit{.share = 0.25, .base_s = 7e-6, .cache_gain = 4};
  DeviceType cached = device();
  const GemmShape shape = product(1000, 64, 1000);
  const double multiply = benchmarked_gemm_time(shape, Precision::FP16, cached, fit).value();
  const double moved = 5e6 / 0.25e12;
  const auto cast = [&](Bytes cache) {
    cached.l2 = declared(cache);
    return benchmarked_gemm_time(shape, Precision::FP8, cached, fit).value() - multiply;
  };
  // Operand and result take 3 MB.
  CHECK(cast(Bytes(3'000'000)) == Approx(moved / 4 + 7e-6));
  CHECK(cast(Bytes(2'000'000)) == Approx(moved * (0.5 + 0.5 / 4) + 7e-6));
  CHECK(cast(Bytes(1'500'000)) == Approx(moved + 7e-6));
  CHECK(cast(Bytes(0)) == Approx(moved + 7e-6));
}

TEST_CASE("in training an 8-bit product casts the gradient of its result, and logits stay wide") {
  const DeviceFit fit = plain();
  DeviceType fast = device();
  fast.peak.emplace(Precision::FP8, declared(200.0_TFLOPps));
  const auto time = [&](Phase phase, const char* name) {
    // x [4096, 1024], weight [1024, 4096]; dy [4096, 4096]
    const Operand x = dense_operand({4096, 1024}), y = dense_operand({4096, 4096});
    const Operand weight = dense_operand({1024, 4096});
    Kernel kernel{.kind = KernelKind::Matmul, .phase = phase, .name = name};
    kernel.operands = phase == Phase::Forward         ? std::vector{x, weight, y}
                      : phase == Phase::InputGradient ? std::vector{weight, y, x}
                                                      : std::vector{x, y, weight};
    return (kernel_time(kernel, Precision::FP8, fast, fit, AttentionKernel::Flash2) -
            Seconds(fit.launch_s))
        .value();
  };
  const double narrow = 2.0 * 4096 * 4096 * 1024 / 200e12;
  // Operands are moved beside it, which hardly shows.
  const auto about = [](double seconds) { return Approx(seconds).epsilon(0.01); };
  const double cast = 5.0 * 4096 * 4096 / 0.5e12 + 4e-6;
  CHECK(time(Phase::Forward, "up") == about(narrow));
  CHECK(time(Phase::InputGradient, "up") == about(narrow + cast));
  CHECK(time(Phase::WeightGradient, "up") == about(narrow));
  CHECK(time(Phase::Forward, "head.logits") == about(2 * narrow));
  CHECK(time(Phase::InputGradient, "router.logits") == about(2 * narrow));
}

TEST_CASE("benchmarks find products that last slower, whatever the clocks of training are") {
  DeviceFit fit = plain();
  const GemmShape shape = product(4096, 4096, 1024);
  const double cool = 2.0 * 4096 * 4096 * 1024 / 100e12;
  const auto found = [&] {
    return benchmarked_gemm_time(shape, Precision::FP16, device(), fit).value();
  };
  fit.gemm.heat_s = cool;
  CHECK(found() == near(cool));
  fit.gemm.heat_slow_down = 0.2;
  CHECK(found() == near(1.1 * cool));
  fit.sustained = 0.5;
  CHECK(found() == near(1.1 * cool));
  CHECK(time_of(shape, fit) == near(2 * cool));
}

TEST_CASE("the three products of a layer have their own shapes") {
  const Operand x = dense_operand({2, 10, 30}), weight = dense_operand({30, 70}),
                y = dense_operand({2, 10, 70});
  const Bytes moved(2 * (2 * 10 * 30 + 30 * 70 + 2 * 10 * 70));
  CHECK(gemm_shape(matmul(Phase::Forward, x, weight, y), Precision::FP16) ==
        GemmShape{.m = 20, .n = 70, .k = 30, .moved = moved});
  CHECK(gemm_shape(matmul(Phase::InputGradient, weight, y, x), Precision::FP16) ==
        GemmShape{.m = 20, .n = 30, .k = 70, .moved = moved});
  CHECK(gemm_shape(matmul(Phase::WeightGradient, x, y, weight), Precision::FP16) ==
        GemmShape{.m = 30, .n = 70, .k = 20, .moved = moved});
}

TEST_CASE("flash attention has two products forward and five backward, half with a mask") {
  const DeviceFit fit = plain();
  const double product = 2.0 * 2 * 8 * 1024 * 1024 * 64;
  CHECK(flash(attention(false), Phase::Forward, fit) == near(2 * product / 50e12));
  CHECK(flash(attention(false), Phase::InputGradient, fit) == near(5 * product / 25e12));
  CHECK(flash(attention(true), Phase::Forward, fit) == near(product / 50e12));
}

TEST_CASE("short sequences, small heads and few blocks make flash attention slower") {
  DeviceFit fit = plain();
  const double full = flash(attention(false), Phase::Forward, fit);
  const double half = flash(attention(true), Phase::Forward, fit);
  FlashFit& flash2 = fit.flash.at(AttentionKernel::Flash2);
  flash2.sequence_ramp = 1024;  // as long as the sequence
  CHECK(flash(attention(false), Phase::Forward, fit) == near(2 * full));
  flash2 = {.forward_share = 0.5, .backward_share = 0.25, .head_ramp = 64};  // as large as a head
  CHECK(flash(attention(false), Phase::Forward, fit) == near(2 * full));
  flash2 = {.forward_share = 0.5, .backward_share = 0.25, .causal_ramp = 512};
  CHECK(flash(attention(false), Phase::Forward, fit) == near(full));
  CHECK(flash(attention(true), Phase::Forward, fit) == near(1.5 * half));
  // 2 x 8 heads of 8 blocks on 100 multiprocessors: 1.28 waves.
  flash2 = {.forward_share = 0.5, .backward_share = 0.25, .wave_ramp = 1.28};
  CHECK(flash(attention(false), Phase::Forward, fit) == near(2 * full));
}

TEST_CASE("a window leaves what it lets queries see") {
  DeviceFit fit = plain();
  const auto time = [&](std::optional<std::int64_t> window) {
    AttentionShape shape = attention(true);
    shape.window = window;
    return flash_time(shape, Phase::Forward, Precision::FP16, device(), fit,
                      AttentionKernel::Flash2)
        .value();
  };
  // Half the pairs of 1024 by 1024; with a window of 256, 1024 x 256 - 256^2 / 2 of them.
  CHECK(time(256) / time({}) == Approx((1024 * 256 - 256 * 256 / 2) / (1024 * 1024 / 2.0)));
  CHECK(time(1024) == time({}));
  CHECK(time(5000) == time({}));
  fit.flash.at(AttentionKernel::Flash2).causal_ramp = 512;
  for (std::int64_t window = 1; window < 1024; window *= 2) {
    CHECK(time(window) <= time(2 * window));
  }
}

TEST_CASE("attention that stores its scores is priced by its parts") {
  DeviceFit fit = plain();
  fit.gemm.share = 1e6;  // arithmetic takes no time
  fit.gemm.memory_share = 1e6;
  AttentionShape shape = attention(true);
  const double scores = 2.0 * 2 * 8 * 1024 * 1024;  // bytes
  const auto time = [&](Phase phase, AttentionKernel kernel) {
    return unfused_attention_time(shape, phase, Precision::FP16, device(), fit, kernel).value();
  };
  const auto about = [](double seconds) { return Approx(seconds).epsilon(1e-4); };
  // Fused: read and written once; three kernels, of which one launch is counted by the caller.
  CHECK(time(Phase::Forward, AttentionKernel::FusedSoftmax) == about(2 * scores / 0.5e12 + 4e-6));
  // Two casts between 2 and 4 bytes, and three kernels that read and write 4: 36 bytes a score,
  // for 2 of a pass.
  CHECK(time(Phase::Forward, AttentionKernel::Unfused) == about(18 * scores / 0.5e12 + 12e-6));
  CHECK(time(Phase::InputGradient, AttentionKernel::FusedSoftmax) ==
        about(3 * scores / 0.5e12 + 8e-6));
  shape.dropout = true;  // one more kernel: two passes and a byte for each element
  CHECK(time(Phase::Forward, AttentionKernel::FusedSoftmax) == about(4.5 * scores / 0.5e12 + 6e-6));
}

TEST_CASE("attention is launched once, or product by product and pass by pass") {
  AttentionShape shape = attention(true);
  const auto launches = [&](Phase phase, Precision precision, AttentionKernel kernel) {
    return attention_launches(shape, phase, precision, kernel);
  };
  CHECK(launches(Phase::Forward, Precision::FP16, AttentionKernel::Flash2) == 1);
  CHECK(launches(Phase::Forward, Precision::FP16, AttentionKernel::FusedSoftmax) == 3);
  CHECK(launches(Phase::InputGradient, Precision::FP16, AttentionKernel::FusedSoftmax) == 5);
  CHECK(launches(Phase::Forward, Precision::FP16, AttentionKernel::Unfused) == 7);
  CHECK(launches(Phase::Forward, Precision::FP32, AttentionKernel::Unfused) == 5);
  shape.dropout = true;
  CHECK(launches(Phase::Forward, Precision::FP16, AttentionKernel::FusedSoftmax) == 4);
}

TEST_CASE("the fused softmax takes four rows of scores at a time, of at most 2048 keys") {
  const auto usable = [](std::int64_t batch, std::int64_t heads, std::int64_t keys) {
    return usable_kernel(AttentionKernel::FusedSoftmax,
                         {.batch = batch, .heads = heads, .queries = keys, .keys = keys}) ==
           AttentionKernel::FusedSoftmax;
  };
  CHECK(usable(1, 4, 1024));
  CHECK(usable(2, 2, 2048));
  CHECK_FALSE(usable(1, 2, 1024));
  CHECK_FALSE(usable(3, 2, 1024));
  CHECK_FALSE(usable(1, 4, 4096));
  CHECK_FALSE(usable(1, 4, 16));
  CHECK_FALSE(usable(1, 4, 1023));
  CHECK(usable_kernel(AttentionKernel::Flash2, {.batch = 1, .heads = 1, .keys = 1023}) ==
        AttentionKernel::Flash2);
}

TEST_CASE("attention is not computed in 8 bits") {
  DeviceType fast = device();
  fast.peak.emplace(Precision::FP8, declared(200.0_TFLOPps));
  const Operand heads = dense_operand({2, 1024, 8, 64});
  const Kernel kernel{.kind = KernelKind::Attention,
                      .operands = {heads, heads, heads, heads},
                      .attributes = AttentionAttributes{.causal = true}};
  const auto time = [&](Precision precision) {
    return kernel_time(kernel, precision, fast, plain(), AttentionKernel::Flash2);
  };
  CHECK(time(Precision::FP8) == time(Precision::BF16));
}

TEST_CASE("other kernels move their operands once, after a launch") {
  const Kernel add{
      .kind = KernelKind::Add,
      .operands = {dense_operand({1000}), dense_operand({1000}), dense_operand({1000})}};
  CHECK(kernel_time(add, Precision::FP16, device(), plain(), AttentionKernel::Flash2).value() ==
        near(6000 / 0.5e12 + 2e-6));
}

TEST_CASE("products of scores take longer where heads are no multiples of 16 bytes") {
  DeviceFit fit = plain();
  fit.gemm.share = 1e-3;  // nothing else counts
  const auto time = [&](std::int64_t size, Precision precision) {
    AttentionShape shape = attention(true);
    shape.query_size = shape.value_size = size;
    return unfused_attention_time(shape, Phase::Forward, precision, device(), fit,
                                  AttentionKernel::FusedSoftmax)
        .value();
  };
  CHECK(time(108, Precision::FP16) ==
        Approx(10 * time(112, Precision::FP16) * 108 / 112).epsilon(0.05));
  CHECK(time(104, Precision::FP16) < time(112, Precision::FP16) * 1.001);
  CHECK(time(108, Precision::FP32) < time(112, Precision::FP32) * 1.001);  // four bytes each
}

TEST_CASE("operands that fit into the cache move two and a half times as fast, others in part") {
  DeviceType type = device();
  const Kernel add{
      .kind = KernelKind::Add,
      .operands = {dense_operand({1000}), dense_operand({1000}), dense_operand({1000})}};
  const auto moving = [&](Bytes cache) {
    type.l2 = declared(cache);
    return kernel_time(add, Precision::FP16, type, plain(), AttentionKernel::Flash2).value() - 2e-6;
  };
  const double all = 6000 / 0.5e12;
  CHECK(moving(Bytes(6000)) == Approx(all / 2.5));
  CHECK(moving(Bytes(60'000)) == Approx(all / 2.5));
  CHECK(moving(Bytes(1500)) == Approx(all * (0.75 + 0.25 / 2.5)));
  CHECK(moving(Bytes(0)) == Approx(all));
}

}  // namespace meshwright
