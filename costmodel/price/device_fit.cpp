#include "costmodel/price/device_fit.h"

#include <array>
#include <functional>

namespace meshwright {
namespace {

constexpr std::array kAttentionKernels = {AttentionKernel::Unfused, AttentionKernel::FusedSoftmax,
                                          AttentionKernel::Flash1, AttentionKernel::Flash2,
                                          AttentionKernel::Newest};

using Visit = std::function<void(const std::string& name, double& value)>;

void visit(GemmFit& gemm, const std::string& prefix, const Visit& each) {
  each(prefix + ".share", gemm.share);
  each(prefix + ".ramp", gemm.ramp);
  each(prefix + ".tile_load", gemm.tile_load);
  each(prefix + ".quantization", gemm.quantization);
  each(prefix + ".memory_share", gemm.memory_share);
  each(prefix + ".split_share", gemm.split_share);
  each(prefix + ".heat_slow_down", gemm.heat_slow_down);
  each(prefix + ".heat_s", gemm.heat_s);
}

void visit(CastFit& cast, const Visit& each) {
  each("cast.share", cast.share);
  each("cast.base_s", cast.base_s);
  each("cast.cache_gain", cast.cache_gain);
}

void visit(FlashFit& flash, const std::string& prefix, const Visit& each) {
  each(prefix + ".forward_share", flash.forward_share);
  each(prefix + ".backward_share", flash.backward_share);
  each(prefix + ".sequence_ramp", flash.sequence_ramp);
  each(prefix + ".causal_ramp", flash.causal_ramp);
  each(prefix + ".head_ramp", flash.head_ramp);
  each(prefix + ".wave_ramp", flash.wave_ramp);
}

void visit(ProtocolFit& protocol, const std::string& prefix, const Visit& each) {
  each(prefix + ".base_s", protocol.base_s);
  each(prefix + ".hops", protocol.hops);
  each(prefix + ".share", protocol.share);
  each(prefix + ".ramp_s", protocol.ramp_s);
}

// Every number of the fit with its name.
void visit(DeviceFit& fit, const Visit& each) {
  each("launch_s", fit.launch_s);
  each("memory_share", fit.memory_share);
  each("sustained", fit.sustained);
  visit(fit.gemm, "gemm", each);
  if (fit.gemm_fp8) visit(*fit.gemm_fp8, "gemm_fp8", each);
  if (fit.cast) visit(*fit.cast, each);
  for (auto& [kernel, flash] : fit.flash) {
    visit(flash, "flash." + std::string(to_text(kernel)), each);
  }
  visit(fit.links.small, "links.small", each);
  visit(fit.links.large, "links.large", each);
  visit(fit.links.all_to_all, "links.all_to_all", each);
  if (fit.links.in_switch) visit(*fit.links.in_switch, "links.in_switch", each);
}

bool set_if_there(DeviceFit& fit, std::string_view name, double value) {
  bool found = false;
  visit(fit, [&](const std::string& each, double& field) {
    if (each != name) return;
    field = value;
    found = true;
  });
  return found;
}

}  // namespace

std::string_view to_text(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::Unfused:
      return "unfused";
    case AttentionKernel::FusedSoftmax:
      return "fused_softmax";
    case AttentionKernel::Flash1:
      return "flash1";
    case AttentionKernel::Flash2:
      return "flash2";
    case AttentionKernel::Newest:
      return "newest";
  }
  return "";
}

bool stores_scores(AttentionKernel attention) {
  return attention == AttentionKernel::Unfused || attention == AttentionKernel::FusedSoftmax;
}

std::optional<AttentionKernel> parse_attention_kernel(std::string_view text) {
  for (const AttentionKernel kernel : kAttentionKernels) {
    if (to_text(kernel) == text) return kernel;
  }
  return std::nullopt;
}

std::map<std::string, double> fit_values(const DeviceFit& fit) {
  std::map<std::string, double> values;
  DeviceFit copy = fit;
  visit(copy, [&](const std::string& name, double& value) { values[name] = value; });
  return values;
}

bool set_fit_value(DeviceFit& fit, std::string_view name, double value) {
  if (set_if_there(fit, name, value)) return true;
  DeviceFit larger = fit;
  if (name.starts_with("gemm_fp8.")) larger.gemm_fp8.emplace();
  if (name.starts_with("cast.")) larger.cast.emplace();
  if (name.starts_with("links.in_switch.")) larger.links.in_switch.emplace();
  if (constexpr std::string_view kFlash = "flash."; name.starts_with(kFlash)) {
    const std::string_view rest = name.substr(kFlash.size());
    if (const auto kernel = parse_attention_kernel(rest.substr(0, rest.find('.')))) {
      larger.flash.try_emplace(*kernel);
    }
  }
  if (!set_if_there(larger, name, value)) return false;
  fit = std::move(larger);
  return true;
}

DeviceFit formula_fit(const DeviceType& device) {
  // The largest share of the peak that a product reaches, where the device does not say: measured
  // shares are 0.87 on A100, 0.80 on H100, 0.78 on B200 (ml-engineering, table of maximum
  // achievable matmul FLOPS).
  constexpr double kShare = 0.8;
  return {.name = "formula",
          .devices = {device.name},
          .sources = "typical of what was fitted for other devices",
          .launch_s = 3e-6,
          .memory_share = 0.85,
          .sustained = 1,
          .gemm = {.share = device.matmul_share ? device.matmul_share->value : kShare,
                   .ramp = 100,
                   .tile_load = 20,
                   .quantization = 0.5,
                   .memory_share = 0.8,
                   .split_share = 1.5,
                   .heat_slow_down = 0.2,
                   .heat_s = 5e-3},
          .flash = {{AttentionKernel::Flash2,
                     {.forward_share = 0.6,
                      .backward_share = 0.5,
                      .sequence_ramp = 100,
                      .causal_ramp = 400,
                      .head_ramp = 10,
                      .wave_ramp = 3}}},
          .links = {.small = {.base_s = 7e-6, .hops = 1, .share = 0.1},
                    .large = {.base_s = 20e-6, .hops = 2, .share = 0.75, .ramp_s = 3e-9},
                    .all_to_all = {.base_s = 20e-6, .hops = 1, .share = 0.7, .ramp_s = 3e-9}}};
}

}  // namespace meshwright
