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
constexpr std::int64_t kFitsVersion = 2;

// Every number must be there: a missing one would be a price of nothing.
template <class Fit>
Fit read_numbers(const JsonInput& values) {
  Fit fit;
  std::set<std::string> given;
  for (const auto& [name, value] : values.fields()) {
    if (!set_fit_value(fit, name, value.not_negative())) value.fail("no such number in a fit");
    given.insert(name);
  }
  for (const auto& [name, value] : fit_values(fit)) {
    if (!given.contains(name)) values.fail(fmt::format("\"{}\" is missing", name));
    if (value == 0 && (name.ends_with("share") || name.ends_with("bytes_per_s"))) {
      values.at(name).fail_expected("a share above 0");
    }
  }
  return fit;
}

template <class Fit>
std::map<Fabric, Fit> read_fabrics(const JsonInput& input, Fabric needed) {
  std::map<Fabric, Fit> fits;
  for (const auto& [name, values] : input.fields()) {
    const auto fabric = parse_fabric(name);
    if (!fabric) values.fail("no such fabric");
    fits.emplace(*fabric, read_numbers<Fit>(values));
  }
  if (!fits.contains(needed)) input.fail(fmt::format("\"{}\" is missing", to_text(needed)));
  return fits;
}

NetworkFits read_network(const JsonInput& input) {
  return {.between = read_fabrics<NetworkFit>(input.at("between"), Fabric::InfiniBand),
          .inside = read_fabrics<HopFactors>(input.at("inside"), Fabric::NvLink)};
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

template <class Fit>
Json values_json(const Fit& fit) {
  Json values = Json::object();
  for (const auto& [name, value] : fit_values(fit)) values[name] = six_digits(value);
  return values;
}

template <class Fit>
Json fabrics_json(const std::map<Fabric, Fit>& fits) {
  Json all = Json::object();
  for (const auto& [fabric, fit] : fits) all[std::string(to_text(fabric))] = values_json(fit);
  return all;
}

Json device_json(const DeviceFit& fit) {
  return {{"name", fit.name},
          {"devices", fit.devices},
          {"sources", fit.sources},
          {"values", values_json(fit)}};
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
  Fits fits{.network = read_network(network),
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
  const Json network = {{"sources", fits.network_sources},
                        {"between", fabrics_json(fits.network.between)},
                        {"inside", fabrics_json(fits.network.inside)}};
  const Json all = {{"format", kFitsFormat},
                    {"version", kFitsVersion},
                    {"network", network},
                    {"devices", std::move(devices)}};
  return all.dump(1) + "\n";
}

}  // namespace meshwright
