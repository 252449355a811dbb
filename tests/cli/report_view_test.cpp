#include "cli/report_view.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/search_view.h"

namespace meshwright {
namespace {

DeviceReport device(std::size_t index, Bytes activations) {
  return {.device = DeviceId(index),
          .capacity = 16_GiB,
          .peak = 4_GiB + activations,
          .by_component = {4_GiB, 0_B, 0_B, activations, 0_B, 0_B},
          .reserved = 4_GiB + activations,
          .peak_time = 1.0_s,
          .parts = {.kernels = {{Phase::Forward, 1.0_s},
                                {Phase::InputGradient, 1.0_s},
                                {Phase::WeightGradient, 0.0_s},
                                {Phase::Step, 0.5_s}},
                    .transfers = {{Purpose::Tensor, 0.5_s}},
                    .idle = 1.0_s}};
}

// Device 1 finishes last, device 0 is fullest.
Report example() {
  return {.step = 4.0_s,
          .tokens = 4096,
          .tokens_per_s = 1024,
          .mfu = 0.25,
          .hfu = 0.5,
          .bubble = 0.125,
          .devices = {device(0, 8_GiB), device(1, 2_GiB)},
          .last_device = 1,
          .fullest_device = 0};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the report shows figures, time, memory and the limit") {
  // Of 90 columns 25, 50, 62.5 and 75 % are 22.5, 45, 56.25 and 67.5.
  const std::string expected =
      "fits, 4 GiB to spare: device 0, the fullest, needs 12 GiB of 16 GiB\n"
      "step 4 s, 1.024 k tokens/s, 512 tokens/s/device, 0.0 TFLOP/s/device\nMFU 25.0 %, HFU 50.0 "
      "%, bubble 12.5 %\n"
      "\n"
      "time of device 1, which finishes last\n"
      "  [" +
      std::string(23, 'f') + std::string(22, 'i') + std::string(11, 'o') + std::string(12, 't') +
      std::string(22, '.') +
      "]\n"
      "  forward          1 s     25.0 %  ##########\n"
      "  input gradient   1 s     25.0 %  ##########\n"
      "  optimizer        500 ms  12.5 %  #####\n"
      "  tensor transfer  500 ms  12.5 %  #####\n"
      "  idle             1 s     25.0 %  ##########\n"
      "\n"
      "memory of device 0, the fullest, at 1 s: 12 GiB of 16 GiB: fits, 4 GiB to spare\n"
      "  weights      4 GiB  25.0 %  ##########\n"
      "  activations  8 GiB  50.0 %  ####################\n"
      "\n"
      "what limits the step: computing, 62.5 % of it\n"
      "\n";
  const std::string text = report_text(example());
  CHECK(text.substr(0, expected.size()) == expected);
  CHECK(contains(text.substr(expected.size()), "MFU = 3 x FLOPs of the forward kernels"));
}

TEST_CASE("the report says what does not fit and what else can limit a step") {
  Report report = example();
  report.fits = Fit::No;
  report.devices[0].peak = 17_GiB;
  CHECK(contains(report_text(report), "17 GiB of 16 GiB: does not fit, 1 GiB too much\n"));
  report.fits = Fit::Close;
  report.devices[0].peak = report.devices[0].reserved = 15872_MiB;
  CHECK(contains(report_text(report), "too close to call, 512 MiB to spare\n"));
  report.devices[0].reserved = 17_GiB;
  CHECK(contains(report_text(report),
                 "too close to call: the allocator would want 1 GiB too much\n"));
  report.devices[1].parts.dispatch = 2.75_s;
  CHECK(contains(report_text(report), "waiting for the host to launch tasks, 68.8 % of it\n"));
  report.devices[1].parts.idle = 3.0_s;
  CHECK(contains(report_text(report), "the step: waiting for other devices, 75.0 % of it\n"));
  report.devices[1].parts.transfers[Purpose::Gradients] = 3.5_s;
  CHECK(contains(report_text(report),
                 "the step: waiting for gradients transfers that nothing hides, 87.5 % of it\n"));
}

TEST_CASE("stages are shown with what fills their memory") {
  Report report = example();
  report.devices[0].context = 2_GiB;
  report.devices[0].reserved = 13_GiB;
  report.devices[0].count = 4;
  report.devices[1].stage = 1;
  report.activations_by_layer = {{"layers.0", 5_GiB}, {"others", 3_GiB}};
  const std::string text = report_text(report);
  // Of 40 columns: 10 weights, 20 activations, 5 context, and 1 of 13 GiB reserved is 2.5.
  CHECK(contains(text, "  0      0       15 GiB  [WWWWWWWWWWAAAAAAAAAAAAAAAAAAAACCCCCrrr..]\n"));
  CHECK(contains(text, "  1      1       6 GiB   [WWWWWWWWWWAAAAA.........................]\n"));
  CHECK(contains(text, "memory of device 0 (one of 4 equal ones), the fullest"));
  CHECK(contains(text, "activations by layer: layers.0 5 GiB, others 3 GiB\n"));
}

TEST_CASE("the price of a choice is shown as a difference") {
  Report other = example();
  other.step = 5.0_s;
  other.devices[0].reserved = 10_GiB;
  const std::vector<KnobPrice> knobs = {{.name = "recompute=full", .report = other},
                                        {.name = "zero=3", .problem = "no replicas"}};
  const std::string text = knobs_text(example(), knobs);
  CHECK(contains(text, "  recompute=full  5 s   + 1 s  10 GiB  - 2 GiB  yes\n"));
  CHECK(contains(text, "not possible here\n  zero=3: no replicas\n"));
  CHECK(knobs_json(knobs).at(0).at("step_s") == 5.0);
  CHECK(knobs_json(knobs).at(1).at("problem") == "no replicas");
}

TEST_CASE("the report as JSON has the fields scripts rely on") {
  const auto json = report_json(example());
  CHECK(json.at("step_s") == 4.0);
  CHECK(json.at("tokens_per_s") == 1024.0);
  CHECK(json.at("mfu") == 0.25);
  CHECK(json.at("hfu") == 0.5);
  CHECK(json.at("bubble") == 0.125);
  CHECK(json.at("fits") == "yes");
  CHECK(json.at("capacity_bytes") == (16_GiB).value());
  double sum = 0;
  for (const auto& [name, time] : json.at("parts_s").items()) sum += time.get<double>();
  CHECK(sum == 4.0);
  CHECK(json.at("parts_s").at("tensor_transfer") == 0.5);
  CHECK(json.at("parts_device") == 1);
  CHECK(json.at("devices").size() == 2);
  CHECK(json.at("devices").at(1).at("device") == 1);
  CHECK(json.at("devices").at(1).at("peak_bytes") == (6_GiB).value());
  CHECK(json.at("devices").at(1).at("by_component").at("activations") == (2_GiB).value());
}

TEST_CASE("the report says what hosts hold and whether they can") {
  Report report = example();
  CHECK_FALSE(contains(report_text(report), "host memory"));
  CHECK_FALSE(report_json(report).contains("host"));
  report.host = HostUse{NodeId(2), 3_GiB, 4_GiB};
  report.devices[1].parts.copies = {{CopyDirection::FromHost, 3.0_s}};
  CHECK(
      contains(report_text(report), "host memory of node 2, the fullest: 3 GiB of 4 GiB: fits\n"));
  CHECK(contains(report_text(report),
                 "what limits the step: waiting for copies from host that nothing hides, 75.0 % of "
                 "it\n"));
  CHECK(report_json(report).at("host") ==
        nlohmann::ordered_json{
            {"node", 2}, {"needed_bytes", (3_GiB).value()}, {"capacity_bytes", (4_GiB).value()}});
  report.host->needed = 5_GiB;
  report.fits = Fit::No;
  CHECK(contains(report_text(report),
                 "12 GiB of 16 GiB: fits, but its host does not have the memory\n"));
  CHECK(contains(report_text(report), "5 GiB of 4 GiB: does not fit, 1 GiB too much\n"));
}

TEST_CASE("the memory that is said to be enough is enough as it is shown") {
  // 2264924160 B / 0.95 = 2.2204 GiB, and 2.22 GiB would be too little.
  CHECK(to_text(memory_for(Bytes(2264924160))) == "2.223 GiB");
  for (std::int64_t needed = 1 << 20; needed < std::int64_t{1} << 45; needed += needed / 7) {
    const Bytes shown = *parse_quantity<Bytes>(to_text(memory_for(Bytes(needed))));
    const double enough = static_cast<double>(needed) / 0.95;
    CAPTURE(needed);
    CHECK(static_cast<double>(shown.value()) >= enough);
    CHECK(static_cast<double>(shown.value()) < enough * 1.002);
  }
}

}  // namespace meshwright
