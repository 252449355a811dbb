#include "cli/collective_view.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/text_table.h"

namespace meshwright {

BytesPerSecond bus_bandwidth(const PricedCollective& priced) {
  return BytesPerSecond(bytes_sent(priced.kind, priced.bytes, priced.devices) /
                        priced.time.value());
}

std::string collectives_text(const std::vector<PricedCollective>& priced) {
  const PricedCollective& first = priced.front();
  std::vector<std::vector<std::string>> rows = {
      {"bytes", "time (us)", "algbw (GB/s)", "busbw (GB/s)", "algorithm", "origin"}};
  for (const PricedCollective& each : priced) {
    rows.push_back({std::to_string(each.bytes.value()),
                    fmt::format("{:.1f}", each.time.value() * 1e6),
                    fmt::format("{:.2f}", (each.bytes / each.time).value() * 1e-9),
                    fmt::format("{:.2f}", bus_bandwidth(each).value() * 1e-9),
                    each.algorithm ? std::string(to_text(*each.algorithm)) : "-",
                    std::string(to_text(each.origin))});
  }
  return fmt::format("{} over {} node{}, {} devices\n{}", to_text(first.kind), first.nodes,
                     first.nodes == 1 ? "" : "s", first.devices, table_text(rows, 2));
}

nlohmann::ordered_json collectives_json(const std::vector<PricedCollective>& priced) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PricedCollective& each : priced) {
    nlohmann::ordered_json algorithm;
    if (each.algorithm) algorithm = to_text(*each.algorithm);
    list.push_back({{"op", to_text(each.kind)},
                    {"nodes", each.nodes},
                    {"devices", each.devices},
                    {"bytes", each.bytes.value()},
                    {"time_s", each.time.value()},
                    {"busbw", bus_bandwidth(each).value()},
                    {"algorithm", algorithm},
                    {"origin", to_text(each.origin)}});
  }
  return {{"collectives", list}};
}

}  // namespace meshwright
