#include "executor/benchmark/benchmark.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "costmodel/profile/measured_times.h"
#include "executor/benchmark/cpu_target.h"

namespace meshwright {
namespace {

// A machine made of formulas: the same answer at any speed.
class FakeTarget : public BenchmarkTarget {
 public:
  Provenance provenance() const override { return {"fake", "none", "test"}; }
  DeviceRecord device() const override {
    return {.device = "core", .description = "fake", .devices = 4, .memory = 1_GiB};
  }
  std::optional<Timed> kernel(const Kernel& kernel, Precision) override {
    double time = 1e-3;
    const auto shaped = shape_of(kernel);
    for (const std::int64_t size : shaped->shape) time *= static_cast<double>(size);
    return timed(time, kernel.kind == noisy && asked < calm_after);
  }
  // Devices 0 and 1, and 2 and 3, are close; 1 us and 10 GB/s, others 5 us and 2 GB/s.
  Timed transfer(TransferKind, const std::vector<DeviceId>& group, Bytes bytes) override {
    const bool close = group[0].index() / 2 == group.back().index() / 2;
    return timed((close ? 1e-6 : 5e-6) + static_cast<double>(bytes.value()) / (close ? 10e9 : 2e9),
                 false);
  }
  // 2 us and 8 GB/s to the host, 4 GB/s from there, 20 GB/s within the device.
  Timed copy(std::optional<CopyDirection> direction, Bytes bytes) override {
    const double rate = !direction ? 20e9 : (*direction == CopyDirection::ToHost ? 8e9 : 4e9);
    return timed(2e-6 + static_cast<double>(bytes.value()) / rate, false);
  }

  std::optional<KernelKind> noisy;
  std::int64_t calm_after = 1'000'000;  // so many were asked for
  std::int64_t asked = 0;

 private:
  Timed timed(double time, bool shaky) {
    ++asked;
    return [time, shaky, calls = 0](std::int64_t count) mutable {
      const double factor = shaky && ++calls % 2 == 0 ? 3 : 1;
      return Seconds(time * factor * static_cast<double>(count));
    };
  }
};

const BenchmarkScope kScope{.quick = true, .devices = 4};

struct Run {
  BenchmarkResult result;
  Profile stored;
};

Run run(
    FakeTarget& target, const std::vector<BenchmarkItem>& items,
    const BenchmarkSettings& settings = {.date = "2026-01-01"}, const Profile& known = {},
    const std::function<Seconds()>& clock = [] { return Seconds(0); },
    const std::stop_token& stop = {}) {
  Run done;
  done.result = run_benchmark(
      target, items, settings, known, [&](const Profile& rows) { append(done.stored, rows); },
      clock, stop);
  done.stored = sorted(done.stored);
  return done;
}

KernelItem product(std::int64_t m) {
  return {{{KernelKind::Matmul, Phase::Forward, ""}, {m, 8, 8}}, Precision::FP32};
}

}  // namespace

TEST_CASE("everything that is asked for is measured once and stored with its evidence") {
  FakeTarget target;
  const Run done = run(target, {product(8), TransferItem{TransferKind::AllReduce, 2, 1_MiB}});
  CHECK(done.result.measured == 2);
  CHECK(done.result.complete());
  REQUIRE(done.stored.kernels.size() == 1);
  CHECK(done.stored.kernels[0].time.value() == Approx(1e-3 * 8 * 8 * 8));
  CHECK(done.stored.kernels[0].evidence == Evidence{0, "2026-01-01", kFewestSamples, 0.0});
  REQUIRE(done.stored.transfers.size() == 1);
  CHECK(done.stored.transfers[0].place == GroupPlace{2, 1});
  REQUIRE(done.stored.devices.size() == 1);
  CHECK(done.stored.devices[0].devices == 4);
  CHECK(done.stored.provenances == std::vector<Provenance>{{"fake", "none", "test"}});
}

TEST_CASE("what the profile has is not measured again unless asked") {
  FakeTarget target;
  const Run first = run(target, {product(8), product(16)});
  const Run second = run(target, {product(8), product(16), product(32)}, {}, first.stored);
  CHECK(second.result.known == 2);
  CHECK(second.result.measured == 1);
  CHECK(target.asked == 3);
  CHECK(run(target, {product(8)}, {.again = true}, first.stored).result.measured == 1);
  // Of another machine it says nothing.
  Profile other = first.stored;
  other.provenances[0].machine = "other";
  CHECK(run(target, {product(8)}, {}, other).result.known == 0);
}

TEST_CASE("a noisy reading is reported and not stored") {
  FakeTarget target;
  target.noisy = KernelKind::Matmul;
  const Run done = run(target, {product(8), TransferItem{TransferKind::Send, 2, 1_KiB}});
  CHECK(done.result.measured == 1);
  REQUIRE(done.result.noisy.size() == 1);
  CHECK(done.result.noisy[0].what == "matmul forward fp32 8x8x8");
  CHECK(done.result.noisy[0].reading.spread > 0.1);
  CHECK(!done.result.complete());
  CHECK(done.stored.kernels.empty());
}

TEST_CASE("a noisy reading is taken once more when everything else is done") {
  FakeTarget target;
  target.noisy = KernelKind::Matmul;
  target.calm_after = 2;
  const Run done = run(target, {product(8), product(16), product(32)});
  CHECK(target.asked == 5);
  CHECK(done.result.measured == 3);
  CHECK(done.result.complete());
  CHECK(done.stored.kernels.size() == 3);
}

TEST_CASE("a full benchmark has a coarse grid of everything before it refines kernel by kernel") {
  for (const BenchmarkSizes sizes : {BenchmarkSizes::Core, BenchmarkSizes::Gpu}) {
    const auto items = benchmark_items({.sizes = sizes, .devices = 2});
    const auto name = [](const BenchmarkItem& item) {
      const std::string text = to_text(item);
      return text.substr(0, text.rfind(' '));  // without the sizes
    };
    std::set<std::string> all, seen, refined;
    for (const BenchmarkItem& item : items) all.insert(name(item));
    std::size_t i = 0;
    while (seen.size() < all.size()) seen.insert(name(items[i++]));
    CHECK(i < items.size() * 2 / 3);
    // After the coarse grid of the last kernel, each name comes in one run.
    const std::string last = name(items[i - 1]);
    while (name(items[i]) == last) ++i;
    for (; i < items.size(); ++i) {
      if (name(items[i]) == name(items[i - 1])) continue;
      CHECK(refined.insert(name(items[i])).second);
    }
  }
}

TEST_CASE("after the budget nothing new is begun, and a rerun does the rest") {
  FakeTarget target;
  const std::vector<BenchmarkItem> items = {product(8), product(16), product(32)};
  double now = 0;
  const BenchmarkSettings settings{.budget = 2.5_s};
  const Run done = run(target, items, settings, {}, [&] { return Seconds(now++); });
  CHECK(done.result.measured == 2);
  CHECK(done.result.left == 1);
  CHECK(!done.result.complete());
  const Run rest = run(target, items, {}, done.stored);
  CHECK(rest.result.known == 2);
  CHECK(rest.result.measured == 1);
}

TEST_CASE("a stop keeps what was stored") {
  FakeTarget target;
  std::stop_source stop;
  std::int64_t calls = 0;
  const auto clock = [&] {
    if (++calls == 3) stop.request_stop();
    return Seconds(0);
  };
  const Run done = run(target, {product(8), product(16), product(32)}, {.budget = 9.0_s}, {}, clock,
                       stop.get_token());
  CHECK(done.result.measured >= 1);
  CHECK(done.result.measured + done.result.left == 3);
  CHECK(static_cast<std::int64_t>(done.stored.kernels.size()) == done.result.measured);
}

TEST_CASE("links come from a small and a large message") {
  FakeTarget target;
  const Run done = run(target, {LinkItem{0, 1}, LinkItem{1, 2}});
  REQUIRE(done.stored.links.size() == 2);
  CHECK(done.stored.links[0].bandwidth.value() == Approx(10e9));
  CHECK(done.stored.links[0].latency.value() == Approx(1e-6).epsilon(0.01));
  CHECK(done.stored.links[1].bandwidth.value() == Approx(2e9));
  CHECK(done.stored.links[1].latency.value() == Approx(5e-6).epsilon(0.01));
}

TEST_CASE("copies are a latency and a bandwidth, and are known when they are in the profile") {
  FakeTarget target;
  const std::vector<BenchmarkItem> items = {CopyItem{CopyDirection::ToHost},
                                            CopyItem{CopyDirection::FromHost}, CopyItem{}};
  const Run done = run(target, items);
  CHECK(done.result.measured == 3);
  REQUIRE(done.stored.fits.size() == 6);
  const auto value = [&](const char* fit, const char* parameter) {
    return fit_value(done.stored, "core", fit, parameter);
  };
  CHECK(value("copy to host", "bytes_per_s") == Approx(8e9));
  CHECK(value("copy from host", "bytes_per_s") == Approx(4e9));
  CHECK(value("copy within device", "bytes_per_s") == Approx(20e9));
  // 64 B at 8 GB/s are 8 ns more.
  CHECK(value("copy to host", "latency_s") == Approx(2e-6).epsilon(0.01));
  CHECK(run(target, items, {}, done.stored).result.known == 3);
}

TEST_CASE("the items are grids: inside their sizes every kernel and transfer has a time") {
  for (const bool quick : {true, false}) {
    CAPTURE(quick);
    FakeTarget target;
    BenchmarkScope scope = kScope;
    scope.quick = quick;
    const std::vector<BenchmarkItem> items = benchmark_items(scope);
    std::set<std::string> names;
    for (const BenchmarkItem& item : items) CHECK(names.insert(to_text(item)).second);
    const Run done = run(target, items);
    CHECK(done.result.measured == static_cast<std::int64_t>(items.size()));
    const MeasuredTimes times(done.stored);
    const auto known = [&](KernelKind kind, Phase phase, const char* variant,
                           const std::vector<std::int64_t>& shape) {
      const auto time = times.kernel("core", {kind, phase, variant}, Precision::FP32, shape);
      // The fake's time is the product of the sizes, which interpolation keeps.
      double expected = 1e-3;
      for (const std::int64_t size : shape) expected *= static_cast<double>(size);
      return time && std::fabs(time->value() / expected - 1) < 1e-9;
    };
    using K = KernelKind;
    using P = Phase;
    // gpt2-tiny: micro-batch 2 of 64 tokens, width 128, 4 heads of 32, vocabulary 512.
    for (const P phase : {P::Forward, P::InputGradient, P::WeightGradient}) {
      CHECK(known(K::Matmul, phase, "", {128, 384, 128}));
      CHECK(known(K::Matmul, phase, "", {128, 512, 128}));
      CHECK(known(K::LayerNorm, phase, "", {128, 128}));
    }
    CHECK(known(K::Attention, P::Forward, "causal 32 dropout", {8, 64}));
    CHECK(known(K::Attention, P::InputGradient, "causal 32 dropout", {8, 64}));
    CHECK(known(K::Activation, P::Forward, "gelu_tanh", {128 * 512}));
    CHECK(known(K::Embedding, P::WeightGradient, "accumulate", {128, 128, 512}));
    CHECK(known(K::LossSums, P::Forward, "", {128, 512}));
    CHECK(known(K::Loss, P::InputGradient, "", {128, 512}));
    CHECK(known(K::AdamW, P::Step, "", {850000}));
    CHECK(known(K::Rope, P::Forward, "", {64, 8, 32}));
    for (const std::int64_t devices : {2, 3, 4}) {
      CHECK(times.transfer("core", TransferKind::AllReduce, {devices, 1}, Bytes(100'000)));
      CHECK(times.transfer("core", TransferKind::AllGather, {devices, 1}, Bytes(3'000'000)));
    }
  }
}

TEST_CASE("every item runs on this machine", "[threads]") {
  CpuTarget target("here", "", 3, 1_GiB);
  std::set<std::string> seen;
  for (const BenchmarkItem& item : benchmark_items({.quick = true, .devices = 3})) {
    // Of every class the first, which is the smallest.
    if (const auto* kernel = std::get_if<KernelItem>(&item)) {
      const KernelClass& what = kernel->shaped.kernel;
      const std::string name =
          std::string(to_text(what.kind)) + " " + std::string(to_text(what.phase)) + what.variant;
      if (!seen.insert(name).second) continue;
      CAPTURE(to_text(item));
      for (const Precision precision : {Precision::FP32, Precision::FP64}) {
        const auto made = kernel_with(kernel->shaped);
        REQUIRE(made);
        const auto timed = target.kernel(*made, precision);
        REQUIRE(timed);
        CHECK((*timed)(2) > Seconds(0));
      }
    } else if (const auto* transfer = std::get_if<TransferItem>(&item)) {
      if (transfer->bytes > 1_MiB) continue;
      CAPTURE(to_text(item));
      std::vector<DeviceId> group;
      for (std::int64_t i = 0; i < transfer->devices; ++i) group.emplace_back(i);
      CHECK(target.transfer(transfer->kind, group, transfer->bytes)(2) > Seconds(0));
    }
  }
  const Kernel load{.kind = KernelKind::Load};
  CHECK(!target.kernel(load, Precision::FP32));
  const auto add = kernel_with({{KernelKind::Add, Phase::Forward, ""}, {4}});
  CHECK(!target.kernel(*add, Precision::FP8));
  CHECK(target.copy(CopyDirection::ToHost, 1_MiB)(2) > Seconds(0));
  CHECK(target.copy({}, 1_MiB)(2) > Seconds(0));
}

}  // namespace meshwright
