#include "executor/thread_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "executor/common_rows.h"

namespace meshwright {
namespace {

[[noreturn]] void throw_mismatch(DeviceId device, const Transfer& mine, const Transfer& other) {
  const std::string my_text = transfer_text(mine), other_text = transfer_text(other);
  throw std::logic_error(fmt::format("device {} runs {} where another runs {}{}", device.index(),
                                     my_text, other_text,
                                     my_text == other_text ? " of another shape or kind" : ""));
}

std::size_t element_width(const Transfer& transfer, Precision precision) {
  return static_cast<std::size_t>(bytes_per_element(element_of(transfer), precision).value());
}

}  // namespace

class ThreadEndpoint : public Transport {
 public:
  ThreadEndpoint(ThreadNetwork& network, DeviceId device) : network_(network), device_(device) {}

  void run(const Transfer& transfer, Precision precision,
           std::span<std::byte* const> buffers) override {
    if (const auto fault = fault_of(transfer, device_)) {
      throw std::logic_error(fmt::format("device {} cannot run {}: {}", device_.index(),
                                         transfer_text(transfer), *fault));
    }
    assert(buffers.size() == (is_pair(transfer.kind) ? 1 : 2));
    if (transfer.kind == TransferKind::Send) return send(transfer, precision, buffers[0]);
    if (transfer.kind == TransferKind::Receive) return receive(transfer, precision, buffers[0]);
    const auto place = std::ranges::find(transfer.group, device_) - transfer.group.begin();
    const CollectiveMember self{&transfer, buffers[0], buffers[1]};
    ThreadNetwork::Meeting& meeting = network_.meeting_of(transfer.group);
    const std::vector<CollectiveMember> members =
        network_.meet(meeting, self, static_cast<std::size_t>(place));
    do_share(members, static_cast<std::size_t>(place), precision);
    network_.part(meeting);
  }

  std::vector<std::string> exchange(const std::vector<DeviceId>& group,
                                    std::string given) override {
    return network_.exchange(group, device_, std::move(given));
  }

  void give_up(const std::string& reason) override { network_.fail(reason); }

 private:
  void send(const Transfer& transfer, Precision precision, std::byte* source) {
    auto& channel = network_.channel_of(transfer.group[0], transfer.group[1]);
    const std::size_t width = element_width(transfer, precision);
    const Operand dense = dense_operand(transfer.source->sizes, transfer.source->element);
    std::vector<std::byte> bytes(static_cast<std::size_t>(element_count(dense)) * width);
    copy_elements({&*transfer.source, source}, {&dense, bytes.data()}, width);
    const std::lock_guard lock(network_.mutex_);
    network_.throw_if_failed();
    channel.sent.emplace_back(transfer, std::move(bytes));
    channel.changed.notify_one();
  }

  void receive(const Transfer& transfer, Precision precision, std::byte* target) {
    auto& channel = network_.channel_of(transfer.group[0], transfer.group[1]);
    std::unique_lock lock(network_.mutex_);
    channel.changed.wait(lock, [&] { return !channel.sent.empty() || network_.failure_; });
    if (channel.sent.empty()) network_.throw_if_failed();
    auto [sent, bytes] = std::move(channel.sent.front());
    channel.sent.pop_front();
    lock.unlock();
    if (!is_same_work(sent, transfer)) throw_mismatch(device_, transfer, sent);
    const Operand dense = dense_operand(transfer.target->sizes, transfer.target->element);
    copy_elements({&dense, bytes.data()}, {&*transfer.target, target},
                  element_width(transfer, precision));
  }

  ThreadNetwork& network_;
  DeviceId device_;
};

std::unique_ptr<Transport> ThreadNetwork::endpoint(DeviceId device) {
  return std::make_unique<ThreadEndpoint>(*this, device);
}

void ThreadNetwork::fail(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = reason;
  for (const auto& [group, meeting] : meetings_) meeting->changed.notify_all();
  for (const auto& [pair, channel] : channels_) channel->changed.notify_all();
  for (const auto& [group, exchange] : exchanges_) exchange->changed.notify_all();
}

// A collective that all members have come to runs to its end, also after a failure: nobody may
// take memory away that others still work in. One that is not complete by then never starts.
std::vector<CollectiveMember> ThreadNetwork::meet(Meeting& meeting, const CollectiveMember& member,
                                                  std::size_t place) {
  std::unique_lock lock(mutex_);
  meeting.changed.wait(lock, [&] { return !meeting.working || failure_; });
  throw_if_failed();
  const Transfer& transfer = *member.transfer;
  // Nobody who came leaves before the rest has come, but after a failure.
  if (meeting.arrived == 0) meeting.first = &transfer;
  if (!is_same_work(*meeting.first, transfer)) {
    throw_mismatch(transfer.group[place], transfer, *meeting.first);
  }
  meeting.members.resize(transfer.group.size());
  meeting.members[place] = member;
  if (++meeting.arrived == transfer.group.size()) {
    meeting.working = true;
    meeting.changed.notify_all();
  }
  meeting.changed.wait(lock, [&] { return meeting.working || failure_; });
  if (!meeting.working) throw_if_failed();
  return meeting.members;
}

void ThreadNetwork::part(Meeting& meeting) {
  std::unique_lock lock(mutex_);
  const std::uint64_t round = meeting.round;
  if (++meeting.left == meeting.members.size()) {
    meeting.arrived = meeting.left = 0;
    meeting.working = false;
    ++meeting.round;
    meeting.changed.notify_all();
  }
  meeting.changed.wait(lock, [&] { return meeting.round != round; });
}

ThreadNetwork::Meeting& ThreadNetwork::meeting_of(const std::vector<DeviceId>& group) {
  const std::lock_guard lock(mutex_);
  auto& meeting = meetings_[group];
  if (!meeting) meeting = std::make_unique<Meeting>();
  return *meeting;
}

ThreadNetwork::Channel& ThreadNetwork::channel_of(DeviceId sender, DeviceId receiver) {
  const std::lock_guard lock(mutex_);
  auto& channel = channels_[{sender, receiver}];
  if (!channel) channel = std::make_unique<Channel>();
  return *channel;
}

std::vector<std::string> ThreadNetwork::exchange(const std::vector<DeviceId>& group,
                                                 DeviceId device, std::string given) {
  std::unique_lock lock(mutex_);
  auto& known = exchanges_[group];
  if (!known) known = std::make_unique<Exchange>();
  Exchange& exchange = *known;
  exchange.changed.wait(lock, [&] { return !exchange.complete || failure_; });
  throw_if_failed();
  const auto place = std::ranges::find(group, device) - group.begin();
  exchange.given.resize(group.size());
  exchange.given.at(static_cast<std::size_t>(place)) = std::move(given);
  if (++exchange.arrived == group.size()) {
    exchange.complete = true;
    exchange.changed.notify_all();
  }
  exchange.changed.wait(lock, [&] { return exchange.complete || failure_; });
  if (!exchange.complete) throw_if_failed();
  std::vector<std::string> all = exchange.given;
  if (++exchange.left == group.size()) {
    exchange.arrived = exchange.left = 0;
    exchange.complete = false;
    exchange.changed.notify_all();
  }
  return all;
}

void ThreadNetwork::throw_if_failed() const {
  if (failure_) throw PeerFailure(*failure_);
}

}  // namespace meshwright
