#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/price/collective_time.h"
#include "costmodel/price/cost_model.h"

namespace meshwright {

// One collective on a cluster, as nccl-tests counts it: of an all-to-all `bytes` are what one
// device sends, of all others the whole tensor.
struct PricedCollective {
  TransferKind kind = TransferKind::AllReduce;
  std::int64_t nodes = 1, devices = 1;
  Bytes bytes;
  Seconds time;
  std::optional<Algorithm> algorithm;  // none: it was measured
  PriceOrigin origin = PriceOrigin::Formula;
};

// What a device sends by the time, nccl-tests' bus bandwidth.
BytesPerSecond bus_bandwidth(const PricedCollective& priced);

// Columns as nccl-tests prints them.
std::string collectives_text(const std::vector<PricedCollective>& priced);
nlohmann::ordered_json collectives_json(const std::vector<PricedCollective>& priced);

}  // namespace meshwright
