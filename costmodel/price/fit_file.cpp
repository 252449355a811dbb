#include "costmodel/price/fit_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "costmodel/base/json_input.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFitsFormat = "meshwright-fits";
constexpr std::int64_t kFitsVersion = 1;

NetworkFit read_network(const JsonInput& input) {
  NetworkFit network{.base_s = input.at("base_s").not_negative(),
                     .hop_s = input.at("hop_s").not_negative(),
                     .share = input.at("share").not_negative(),
                     .ramp_s = input.at("ramp_s").not_negative()};
  if (network.share == 0) input.at("share").fail_expected("a share above 0");
  return network;
}

// Every number must be there: a missing one would be a price of nothing.
void check_complete(const DeviceFit& fit, const std::set<std::string>& given,
                    const JsonInput& values) {
  for (const auto& [name, value] : fit_values(fit)) {
    if (!given.contains(name)) values.fail(fmt::format("\"{}\" is missing", name));
    if (value == 0 && name.ends_with("share")) {
      values.at(name).fail_expected("a share above 0");
    }
  }
  if (fit.flash.empty())
    values.fail("no attention: values such as \"flash.flash2...\" are missing");
}

DeviceFit read_device(const JsonInput& input) {
  DeviceFit fit{.name = input.required<std::string>("name"),
                .devices = input.at("devices").list<std::string>(),
                .sources = input.required<std::string>("sources")};
  const JsonInput values = input.at("values");
  std::set<std::string> given;
  for (const auto& [name, value] : values.fields()) {
    if (!set_fit_value(fit, name, value.not_negative())) value.fail("no such number in a fit");
    given.insert(name);
  }
  check_complete(fit, given, values);
  input.reject_unknown_fields();
  return fit;
}

// A double that prints short.
double six_digits(double value) { return std::stod(fmt::format("{:.6g}", value)); }

Json device_json(const DeviceFit& fit) {
  Json values = Json::object();
  for (const auto& [name, value] : fit_values(fit)) values[name] = six_digits(value);
  return {{"name", fit.name},
          {"devices", fit.devices},
          {"sources", fit.sources},
          {"values", std::move(values)}};
}

}  // namespace

const DeviceFit* find_fit(const Fits& fits, std::string_view device_type) {
  for (const DeviceFit& fit : fits.devices) {
    if (std::ranges::find(fit.devices, device_type) != fit.devices.end()) return &fit;
  }
  return nullptr;
}

Fits read_fits(const std::filesystem::path& file) {
  const JsonInput input = JsonInput::read(file);
  if (input.required<std::string>("format") != kFitsFormat) {
    input.at("format").fail_expected(fmt::format("\"{}\"", kFitsFormat));
  }
  if (input.required<std::int64_t>("version") != kFitsVersion) {
    input.at("version").fail_expected(fmt::format("{}", kFitsVersion));
  }
  const JsonInput network = input.at("network");
  Fits fits{.network = read_network(network.at("values")),
            .network_sources = network.required<std::string>("sources")};
  network.reject_unknown_fields();
  for (const JsonInput& device : input.at("devices").elements()) {
    fits.devices.push_back(read_device(device));
  }
  input.reject_unknown_fields();
  return fits;
}

std::string fits_text(const Fits& fits) {
  Json devices = Json::array();
  for (const DeviceFit& fit : fits.devices) devices.push_back(device_json(fit));
  const Json network = {{"base_s", six_digits(fits.network.base_s)},
                        {"hop_s", six_digits(fits.network.hop_s)},
                        {"share", six_digits(fits.network.share)},
                        {"ramp_s", six_digits(fits.network.ramp_s)}};
  const Json all = {{"format", kFitsFormat},
                    {"version", kFitsVersion},
                    {"network", {{"sources", fits.network_sources}, {"values", network}}},
                    {"devices", std::move(devices)}};
  return all.dump(1) + "\n";
}

}  // namespace meshwright
