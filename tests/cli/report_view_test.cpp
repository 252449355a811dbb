#include "cli/report_view.h"

#include <catch2/catch.hpp>

namespace meshwright {
namespace {

DeviceReport device(std::size_t index, Bytes activations) {
  return {.device = DeviceId(index),
          .capacity = 16_GiB,
          .peak = 4_GiB + activations,
          .by_component = {4_GiB, 0_B, 0_B, activations, 0_B, 0_B},
          .peak_time = 1.0_s,
          .parts = {.kernels = {{KernelPart::Forward, 1.0_s},
                                {KernelPart::InputGradient, 1.0_s},
                                {KernelPart::WeightGradient, 0.0_s},
                                {KernelPart::Step, 0.5_s}},
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
  const std::string expected =
      "step 4 s, 1.024 k tokens/s, MFU 25.0 %, HFU 50.0 %, bubble 12.5 %\n"
      "\n"
      "time of device 1, which finishes last\n"
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
  report.devices[0].peak = 15872_MiB;
  CHECK(contains(report_text(report), "too close to call, 512 MiB to spare\n"));
  report.devices[1].parts.idle = 3.0_s;
  CHECK(contains(report_text(report), "the step: waiting for other devices, 75.0 % of it\n"));
  report.devices[1].parts.transfers[Purpose::Gradients] = 3.5_s;
  CHECK(contains(report_text(report),
                 "the step: waiting for gradients transfers that nothing hides, 87.5 % of it\n"));
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

}  // namespace meshwright
