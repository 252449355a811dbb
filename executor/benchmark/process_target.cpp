#include "executor/benchmark/process_target.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "executor/benchmark/transfer_bench.h"

namespace meshwright {
namespace {

constexpr auto kFinished = "null";

std::vector<DeviceId> first_so_many(std::size_t count) {
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < count; ++d) devices.emplace_back(d);
  return devices;
}

}  // namespace

ProcessTarget::ProcessTarget(CpuTarget own, Member& member, std::size_t processes, std::size_t self,
                             const std::optional<SeveralMachines>& machines)
    : own_(std::move(own)),
      member_(member),
      devices_(first_so_many(processes)),
      self_(self),
      network_(member, devices_, self, Bytes(), machines),
      transport_(network_.links(), nullptr) {
  member_.on_call_off([this](const std::string& reason) { network_.fail(reason); });
}

ProcessTarget::~ProcessTarget() { member_.on_call_off(nullptr); }

DeviceRecord ProcessTarget::device() const {
  DeviceRecord record = own_.device();
  record.description = "a process on " + own_.provenance().machine;
  return record;
}

Timed ProcessTarget::transfer(TransferKind kind, const std::vector<DeviceId>& group, Bytes bytes) {
  nlohmann::json members = nlohmann::json::array();
  for (const DeviceId device : group) members.push_back(device.index());
  return [this, kind, members, bytes](std::int64_t count) {
    const nlohmann::json order = {
        {"kind", kind}, {"group", members}, {"bytes", bytes.value()}, {"count", count}};
    return run_together(member_.exchange(order.dump())[0]);
  };
}

void ProcessTarget::serve() {
  for (;;) {
    const std::string order = member_.exchange("")[0];
    if (order == kFinished) break;
    run_together(order);
  }
  member_.finish();
}

void ProcessTarget::finish() {
  member_.exchange(kFinished);
  member_.finish();
}

// The clock of the group's first member counts.
Seconds ProcessTarget::run_together(const std::string& text) {
  const auto order = nlohmann::json::parse(text);
  std::vector<DeviceId> group;
  for (const auto& member : order.at("group")) group.emplace_back(member.get<std::size_t>());
  const auto place = std::ranges::find(group, devices_[self_]) - group.begin();
  double time = 0;
  if (place < static_cast<std::ptrdiff_t>(group.size())) {
    const auto kind = static_cast<TransferKind>(order.at("kind").get<int>());
    TransferBench bench(kind, group, Bytes(order.at("bytes").get<std::int64_t>()),
                        static_cast<std::size_t>(place));
    time = bench.run(transport_, order.at("count")).value();
  }
  const auto times = member_.exchange(nlohmann::json(time).dump());
  return Seconds(nlohmann::json::parse(times.at(group[0].index())).get<double>());
}

}  // namespace meshwright
