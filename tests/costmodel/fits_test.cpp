#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "costmodel/base/csv_input.h"
#include "costmodel/base/input_error.h"
#include "costmodel/base/json_input.h"
#include "costmodel/cluster/cluster_name.h"
#include "costmodel/price/fitted_costs.h"
#include "costmodel/price/kernel_cost.h"
#include "tests/bad_files.h"
#include "tests/costmodel/cluster_examples.h"
#include "tests/costmodel/cost_examples.h"
#include "tests/flat_transfer.h"

namespace meshwright {
namespace {

const std::filesystem::path kData = MESHWRIGHT_DATA;
using Json = nlohmann::json;

// The shipped file with something changed.
std::string message_of(const std::string& file, const std::function<void(Json&)>& change,
                       const std::function<void(const std::filesystem::path&)>& read) {
  const TemporaryFolder folder;
  Json json = Json::parse(read_text_file(kData / file, 16_MiB));
  change(json);
  const auto changed = folder.write("x.json", json.dump());
  try {
    read(changed);
  } catch (const InputError& error) {
    return std::string(error.what()).substr(folder.path().string().size() + 1);
  }
  return "no error";
}

}  // namespace

TEST_CASE("numbers of a fit have names, and a name makes its part") {
  DeviceFit fit = formula_fit(small_device("d"));
  CHECK(fit_values(fit).at("gemm.share") == 0.8);
  CHECK(!fit_values(fit).contains("gemm_fp8.share"));
  CHECK(set_fit_value(fit, "gemm_fp8.share", 0.7));
  CHECK(set_fit_value(fit, "flash.newest.forward_share", 0.6));
  CHECK(set_fit_value(fit, "links.in_switch.share", 0.9));
  CHECK(set_fit_value(fit, "cast.cache_gain", 3));
  CHECK(fit.gemm_fp8->share == 0.7);
  CHECK(fit.flash.at(AttentionKernel::Newest).forward_share == 0.6);
  CHECK(fit.links.in_switch->share == 0.9);
  CHECK(fit.cast->cache_gain == 3);
  const DeviceFit before = fit;
  CHECK(!set_fit_value(fit, "gemm.speed", 1));
  CHECK(!set_fit_value(fit, "flash.flash9.forward_share", 1));
  CHECK(!set_fit_value(fit, "flash.flash1.speed", 1));
  CHECK(fit == before);
}

TEST_CASE("the shipped fits are read and written to the byte") {
  const Fits fits = read_fits(kData / "fits.json");
  CHECK(fits_text(fits) == read_text_file(kData / "fits.json", 16_MiB));
  REQUIRE(find_fit(fits, "a100-sxm-80") != nullptr);
  CHECK(find_fit(fits, "a100-sxm-80")->name == "a100");
  CHECK(find_fit(fits, "abacus") == nullptr);
}

TEST_CASE("a fits file with a mistake is refused by name") {
  const auto message = [](const std::function<void(Json&)>& change) {
    return message_of("fits.json", change, [](const auto& file) { read_fits(file); });
  };
  CHECK(message([](Json& j) { j["format"] = "x"; }) ==
        "x.json: format: expected \"meshwright-fits\", found \"x\"");
  CHECK(message([](Json& j) { j["version"] = 1; }) == "x.json: version: expected 2, found 1");
  CHECK(message([](Json& j) { j["devices"][0]["values"].erase("gemm.share"); }) ==
        "x.json: devices[0].values: \"gemm.share\" is missing");
  CHECK_THAT(message([](Json& j) { j["devices"][0]["values"]["gemm.speed"] = 1; }),
             Catch::Contains("gemm.speed") && Catch::Contains("no such number in a fit"));
  CHECK_THAT(message([](Json& j) { j["devices"][0]["values"]["gemm.ramp"] = -1; }),
             Catch::Contains("expected a number that is not negative, found -1"));
  CHECK_THAT(message([](Json& j) { j["devices"][0]["values"]["gemm.share"] = 0; }),
             Catch::Contains("expected a share above 0, found 0"));
  CHECK_THAT(message([](Json& j) { j["network"]["between"]["infiniband"]["ring_share"] = 0; }),
             Catch::Contains("expected a share above 0, found 0"));
  CHECK(message([](Json& j) { j["network"]["between"]["infiniband"].erase("pair"); }) ==
        "x.json: network.between.infiniband: \"pair\" is missing");
  CHECK_THAT(message([](Json& j) { j["network"]["inside"]["nvlink"]["speed"] = 1; }),
             Catch::Contains("speed") && Catch::Contains("no such number in a fit"));
  CHECK_THAT(message([](Json& j) { j["network"]["inside"]["carrier-pigeon"] = Json::object(); }),
             Catch::Contains("no such fabric"));
  CHECK(message([](Json& j) { j["network"]["between"].erase("infiniband"); }) ==
        "x.json: network.between: \"infiniband\" is missing");
  CHECK_THAT(message([](Json& j) { j["more"] = 0; }), Catch::Contains("more"));
  check_unreadable_files([](const auto& file) { read_fits(file); });
}

TEST_CASE("the shipped software has what published runs name") {
  const auto all = read_software(kData / "software.json");
  for (const char* name : {"megatron-lm", "megatron-core", "megatron-bridge", "nemo", "fsdp",
                           "fsdp2", "megatron-deepspeed", "deepspeed", "internevo", "meshwright"}) {
    CHECK(find_software(all, name) != nullptr);
  }
  CHECK(find_software(all, "other") == nullptr);
}

TEST_CASE("a software that is like another has its numbers but for those it names") {
  const auto all = read_software(kData / "software.json");
  const Software& base = *find_software(all, "megatron-lm");
  Software like = *find_software(all, "megatron-deepspeed");
  CHECK(like.like == "megatron-lm");
  CHECK(like.memory.copies_gradients);
  CHECK(like.memory.transfer_buffers > base.memory.transfer_buffers);
  like.name = base.name;
  like.like = "";
  like.also = base.also;
  like.sources = base.sources;
  like.memory.copies_gradients = base.memory.copies_gradients;
  like.memory.communicator = base.memory.communicator;
  like.memory.transfer_buffers = base.memory.transfer_buffers;
  like.memory.gradient_buffers = base.memory.gradient_buffers;
  CHECK(like == base);
}

TEST_CASE("a software file with a mistake is refused by name") {
  const auto message = [](const std::function<void(Json&)>& change) {
    return message_of("software.json", change, [](const auto& file) { read_software(file); });
  };
  CHECK(message([](Json& j) { j["format"] = "x"; }) ==
        "x.json: format: expected \"meshwright-software\", found \"x\"");
  CHECK(message([](Json& j) { j["version"] = 2; }) == "x.json: version: expected 1, found 2");
  CHECK(message([](Json& j) { j["software"][0]["attention"] = "fast"; }) ==
        "x.json: software[0].attention: expected unfused, fused_softmax, flash1, flash2 or newest, "
        "found \"fast\"");
  CHECK(message([](Json& j) { j["software"][0]["kernels"] = "fast"; }) ==
        "x.json: software[0].kernels: expected executor, flash, eager or unfused, found \"fast\"");
  CHECK(message([](Json& j) { j["software"][0]["step_s"] = -1; }) ==
        "x.json: software[0].step_s: expected a number that is not negative, found -1");
  CHECK(message([](Json& j) { j["software"][0]["attention_share"] = 2; }) ==
        "x.json: software[0].attention_share: expected a share above 0, at most 1, found 2");
  CHECK_THAT(message([](Json& j) { j["software"] = Json::array(); }),
             Catch::Contains("software: expected at least one"));
  CHECK_THAT(message([](Json& j) { j["software"][0]["speed"] = 1; }), Catch::Contains("speed"));
  CHECK(message([](Json& j) { j["software"][1]["like"] = "megatron-core"; }) ==
        "x.json: software[1].like: expected the name of one before it, like no other, found "
        "\"megatron-core\"");
}

TEST_CASE("prices say whether they were fitted or come from a formula") {
  const Fits fits = read_fits(kData / "fits.json");
  const auto software = read_software(kData / "software.json");
  const SoftwarePrices& prices = find_software(software, "meshwright")->prices;
  const Cluster a100 = find_cluster("a100-80:2x8", kData);
  const FittedCosts fitted(a100, fits, prices);
  CHECK(fitted.kernel(addition(1000), Precision::BF16, DeviceId(0)).origin == PriceOrigin::Fitted);
  Transfer all{.kind = TransferKind::AllReduce};
  for (std::size_t i = 0; i < 16; ++i) all.group.emplace_back(i);
  CHECK(fitted.transfer(flat(all, 1000), Precision::BF16).origin == PriceOrigin::Fitted);
  const Cluster other{.name = "other", .node_types = {node_of_devices("n", 1)}, .nodes = {{0, 1}}};
  const FittedCosts formula(other, fits, prices);
  CHECK(formula.kernel(addition(1000), Precision::FP16, DeviceId(0)).origin ==
        PriceOrigin::Formula);
  CHECK(formula.transfer(flat({.group = {DeviceId(0)}}, 5), Precision::FP16).time == Seconds(0));
}

TEST_CASE("a software that moves memory twice takes twice as long after the launch") {
  const Cluster one{.name = "one", .node_types = {node_of_devices("n", 1)}, .nodes = {{0, 1}}};
  SoftwarePrices software;
  const auto time = [&] {
    return FittedCosts(one, Fits(), software)
        .kernel(addition(1'000'000), Precision::FP16, DeviceId(0))
        .time.value();
  };
  const double once = time(), launch = 3e-6;
  CHECK(once == Approx(launch + 6e6 / (900e9 * 0.85)).epsilon(1e-12));
  software.row_passes = 2;
  CHECK(time() == Approx(launch + 2 * (once - launch)).epsilon(1e-12));
  software.compiled = true;
  CHECK(time() == Approx(once).epsilon(1e-12));
  software.compiled = false;
  software.kernel_gap_s = 5e-6;
  CHECK(time() == Approx(launch + 5e-6 + 2 * (once - launch)).epsilon(1e-12));
  software.fused_adds = true;  // the gap belongs to a launch
  CHECK(time() == Approx(launch + 2 * (once - launch)).epsilon(1e-12));
}

TEST_CASE("sums of the forward may be part of another kernel, a loss may be many") {
  const Cluster one{.name = "one", .node_types = {node_of_devices("n", 1)}, .nodes = {{0, 1}}};
  SoftwarePrices software{.loss_launches = 7};
  const auto launches = [&](KernelKind kind, Phase phase) {
    Kernel kernel = addition(1000);
    kernel.kind = kind;
    kernel.phase = phase;
    return FittedCosts(one, Fits(), software).kernel(kernel, Precision::FP16, DeviceId(0)).launches;
  };
  CHECK(launches(KernelKind::Add, Phase::Forward) == 1);
  software.fused_adds = true;
  CHECK(launches(KernelKind::Add, Phase::Forward) == 0);
  CHECK(launches(KernelKind::Add, Phase::InputGradient) == 1);
  CHECK(launches(KernelKind::Dropout, Phase::Forward) == 1);
  CHECK(launches(KernelKind::Loss, Phase::Forward) == 7);
}

// data/published/kernels.csv: 108 shapes of 20 to 256 experts with 77 to 9832 rows each, multiplied
// as Transformer Engine does, in training.
TEST_CASE("products of experts take about as long as was measured") {
  const CsvInput table = CsvInput::read(kData / "published" / "kernels.csv");
  const Cluster cluster = find_cluster("b200", kData);
  const DeviceType& device = cluster.node_types.front().device;
  const Fits fits = read_fits(kData / "fits.json");
  const DeviceFit& fit = *find_fit(fits, device.name);
  std::map<Phase, std::pair<double, int>> errors;  // sum, count
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.text(row, "op") != "grouped_gemm" || table.text(row, "gpu") != "B200") continue;
    const std::string text = table.text(row, "shape").value();
    const std::int64_t experts = std::stoll(text), m = table.integer(row, "m").value();
    const std::int64_t n = table.integer(row, "n").value(), k = table.integer(row, "k").value();
    const Operand x = dense_operand({experts * m, k}), y = dense_operand({experts * m, n}),
                  weight = dense_operand({experts, k, n}),
                  counts = dense_operand({experts}, BufferElement::Index);
    Kernel kernel{.kind = KernelKind::ExpertMatmul, .operands = {x, weight, counts, y}};
    if (text.ends_with("bwd_grad_act")) {
      kernel.phase = Phase::InputGradient;
      kernel.operands = {weight, y, counts, x};
    } else if (text.ends_with("bwd_grad_w")) {
      kernel.phase = Phase::WeightGradient;
      kernel.operands = {x, y, counts, dense_operand({experts, k, n}, BufferElement::Single)};
    }
    const double measured =
        2e-12 * static_cast<double>(experts * m * n * k) / table.number(row, "tflops").value();
    const Seconds time = kernel_time(kernel, Precision::BF16, device, fit, AttentionKernel::Newest);
    auto& [sum, count] = errors[kernel.phase];
    sum += std::abs(time.value() / measured - 1);
    ++count;
  }
  REQUIRE(errors.size() == 3);
  for (const auto& [phase, error] : errors) {
    CAPTURE(to_text(phase));
    CHECK(error.second == 36);
    CHECK(error.first / error.second < 0.3);
  }
}

}  // namespace meshwright
