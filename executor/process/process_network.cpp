#include "executor/process/process_network.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "executor/process/shared_streams.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

// The same for processes that can open each other's memory: of one start of one machine, with the
// same numbers for processes.
std::string machine_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code unreadable;
  return boot + " " + std::filesystem::read_symlink("/proc/self/ns/pid", unreadable).string();
}

std::vector<Json> exchange_json(Member& member, const std::vector<DeviceId>& devices,
                                const Json& own) {
  std::vector<Json> all;
  for (const std::string& text : member.exchange(devices, own.dump())) {
    all.push_back(Json::parse(text));
  }
  return all;
}

// Processes on the machine of this one, in order.
std::vector<std::size_t> neighbours(Member& member, const std::vector<DeviceId>& devices) {
  const std::string own = machine_identity();
  const auto all = exchange_json(member, devices, own);
  std::vector<std::size_t> found;
  for (std::size_t p = 0; p < all.size(); ++p) {
    if (all[p] == own) found.push_back(p);
  }
  return found;
}

// The first of the machine makes it, the others open it, and all have it before it is used.
std::shared_ptr<const SharedMemory> common_memory(Member& member,
                                                  const std::vector<DeviceId>& devices,
                                                  const std::vector<std::size_t>& here,
                                                  std::size_t self) {
  std::shared_ptr<const SharedMemory> memory;
  Json own;
  if (here[0] == self) {
    memory = std::make_shared<const SharedMemory>(SharedMemory::make(here.size()));
    own = {::getpid(), memory->number()};
  }
  const auto all = exchange_json(member, devices, own);
  if (here[0] != self) {
    const Json& made = all[here[0]];
    memory = std::make_shared<const SharedMemory>(
        SharedMemory::open(made.at(0).get<pid_t>(), made.at(1).get<int>(), here.size()));
  }
  exchange_json(member, devices, {});
  return memory;
}

}  // namespace

ProcessNetwork::ProcessNetwork(Member& member, std::vector<DeviceId> devices, std::size_t self)
    : devices_(std::move(devices)), self_(self), by_process_(devices_.size()) {
  const auto here = neighbours(member, devices_);
  const auto memory = common_memory(member, devices_, here, self);
  std::vector<std::size_t> places(devices_.size()), peers;
  for (std::size_t i = 0; i < here.size(); ++i) {
    places[here[i]] = i;
    if (here[i] != self) peers.push_back(here[i]);
  }
  auto streams = shared_streams(memory, places, places[self]);
  all_.push_back(std::make_unique<Links>(std::move(streams), peers, devices_.size()));
  for (const std::size_t peer : peers) by_process_[peer] = all_.back().get();
}

ProcessLinks ProcessNetwork::links() const { return {devices_, by_process_, self_}; }

void ProcessNetwork::fail(const std::string& reason) {
  for (const auto& links : all_) links->fail(reason);
}

void ProcessNetwork::forget_failure() {
  for (const auto& links : all_) links->forget_failure();
}

}  // namespace meshwright
