#include "executor/process/process_network.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "executor/host_memory.h"
#include "executor/process/machine.h"
#include "executor/process/shared_streams.h"
#include "executor/process/socket_streams.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

// Agrees with the other processes on what connects them.
class Connecting {
 public:
  Connecting(Member& member, const std::vector<DeviceId>& devices, std::size_t self, Bytes needed)
      : member_(member), devices_(devices), self_(self) {
    all_ = exchange(
        {{"machine", machine_identity()}, {"host", host_name()}, {"needed", needed.value()}});
    for (std::size_t p = 0; p < all_.size(); ++p) {
      (all_[p].at("machine") == all_[self].at("machine") ? here_ : elsewhere_).push_back(p);
    }
    for (const Json& other : all_) several_ |= other.at("machine") != all_[0].at("machine");
  }

  const std::vector<std::size_t>& here() const { return here_; }
  const std::vector<std::size_t>& elsewhere() const { return elsewhere_; }
  bool are_on_several() const { return several_; }

  // The first of a machine looks at it for all that are there.
  void check_memory_here() const {
    if (here_[0] != self_) return;
    Bytes needed;
    for (const std::size_t process : here_) {
      needed += Bytes(all_[process].at("needed").get<std::int64_t>());
    }
    check_memory(needed, available_memory());
  }

  // The first of the machine makes it, the others open it, and all have it before it is used.
  std::shared_ptr<const SharedMemory> shared_memory() {
    std::shared_ptr<const SharedMemory> memory;
    Json own;
    if (here_[0] == self_) {
      memory = std::make_shared<const SharedMemory>(SharedMemory::make(here_.size()));
      own = {::getpid(), memory->number()};
    }
    const Json made = exchange(own)[here_[0]];
    if (here_[0] != self_) {
      memory = std::make_shared<const SharedMemory>(
          SharedMemory::open(made.at(0).get<pid_t>(), made.at(1).get<int>(), here_.size()));
    }
    exchange({});
    return memory;
  }

  // A process connects to those before it and is connected to by those after it.
  std::map<std::size_t, PeerConnection> sockets(const SeveralMachines& machines) {
    Listener listener(machines.loopback, machines.token);
    const MeetingPoint& own = listener.point();
    const auto points = exchange({{"addresses", own.addresses}, {"port", own.port}});
    std::map<std::size_t, PeerConnection> found;
    for (const std::size_t process : elsewhere_) {
      if (process > self_) break;
      const Json& point = points[process];
      auto socket = join({point.at("addresses"), point.at("port"), machines.token},
                         static_cast<std::uint32_t>(self_));
      if (!socket) throw_unreachable(process);
      found.emplace(process, PeerConnection{std::move(*socket), name_of(process)});
    }
    accept_later_ones(listener, found);
    return found;
  }

 private:
  std::vector<Json> exchange(const Json& own) {
    std::vector<Json> all;
    for (const std::string& text : member_.exchange(own.dump())) {
      all.push_back(Json::parse(text));
    }
    return all;
  }

  std::string name_of(std::size_t process) const {
    return fmt::format("device {} on host {}", devices_[process].index(),
                       all_[process].at("host").get<std::string>());
  }

  [[noreturn]] void throw_unreachable(std::size_t process) const {
    throw RunFailure(RunFailure::Kind::Network,
                     fmt::format("{} does not reach {}: is there a firewall between the machines?",
                                 name_of(self_), name_of(process)));
  }

  void accept_later_ones(Listener& listener, std::map<std::size_t, PeerConnection>& found) const {
    const auto until = Clock::now() + std::chrono::seconds(30);
    for (const std::size_t process : elsewhere_) {
      if (process < self_) continue;
      while (!found.contains(process)) {
        auto joined = listener.accept(until);
        if (!joined) throw_unreachable(process);
        found.emplace(joined->process,
                      PeerConnection{std::move(joined->connection), name_of(joined->process)});
      }
    }
  }

  Member& member_;
  const std::vector<DeviceId>& devices_;
  std::size_t self_;
  std::vector<Json> all_;                      // what each process said of itself
  std::vector<std::size_t> here_, elsewhere_;  // this one is here
  bool several_ = false;
};

}  // namespace

ProcessNetwork::ProcessNetwork(Member& member, std::vector<DeviceId> devices, std::size_t self,
                               Bytes needed, const std::optional<SeveralMachines>& machines)
    : devices_(std::move(devices)), self_(self), by_process_(devices_.size()) {
  Connecting connecting(member, devices_, self, needed);
  connecting.check_memory_here();
  const auto& here = connecting.here();
  const auto memory = connecting.shared_memory();
  std::vector<std::size_t> places(devices_.size()), peers = here;
  for (std::size_t i = 0; i < here.size(); ++i) places[here[i]] = i;
  std::erase(peers, self);
  add(shared_streams(memory, places, places[self]), peers);
  if (!connecting.are_on_several()) return;
  if (!machines) throw std::logic_error("processes of one program are on several machines");
  add(socket_streams(connecting.sockets(*machines)), connecting.elsewhere());
}

void ProcessNetwork::add(std::unique_ptr<Streams> streams, const std::vector<std::size_t>& peers) {
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
