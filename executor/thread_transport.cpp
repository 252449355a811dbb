#include "executor/thread_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "executor/reduce.h"

namespace meshwright {
namespace {

std::string text_of(const Transfer& transfer) {
  std::string members;
  for (const DeviceId device : transfer.group) {
    members += fmt::format("{}{}", members.empty() ? "" : ",", device.index());
  }
  return fmt::format("{} {} of {} among [{}]", to_text(transfer.kind), to_text(transfer.purpose),
                     transfer.count, members);
}

bool same_work(const Transfer& a, const Transfer& b) {
  return a.kind == b.kind && a.reduction == b.reduction && a.count == b.count &&
         a.element == b.element && a.blocks == b.blocks;
}

[[noreturn]] void throw_mismatch(DeviceId device, const Transfer& mine, const Transfer& other) {
  throw std::logic_error(fmt::format("device {} runs {} where another runs {}", device.index(),
                                     text_of(mine), text_of(other)));
}

bool is_sharded(TransferKind kind) {
  return kind == TransferKind::ReduceScatter || kind == TransferKind::AllGather ||
         kind == TransferKind::AllToAll;
}

std::size_t place_in_group(const Transfer& transfer, DeviceId device) {
  const auto place = std::ranges::find(transfer.group, device);
  if (place == transfer.group.end()) {
    throw std::logic_error(
        fmt::format("device {} is not in {}", device.index(), text_of(transfer)));
  }
  return static_cast<std::size_t>(place - transfer.group.begin());
}

// A member's share of a collective: it touches no byte that another member writes.
struct MemberWork {
  const Transfer& transfer;
  Precision precision;
  std::vector<std::byte*> memory;  // of every member, the start of what it gives
  std::size_t place;               // mine
  std::byte* taken = nullptr;      // with blocks: where what this member takes goes

  std::size_t members() const { return memory.size(); }
  std::size_t count() const { return static_cast<std::size_t>(transfer.count); }
  std::size_t width() const {
    return static_cast<std::size_t>(bytes_per_element(transfer.element, precision).value());
  }
  std::size_t part_bytes() const { return count() / members() * width(); }

  void reduce_part(std::size_t first, std::size_t elements) const {
    std::vector<const std::byte*> sources;
    for (const std::byte* start : memory) sources.push_back(start + first * width());
    reduce(transfer.reduction, transfer.element, precision, sources, elements,
           memory[place] + first * width());
  }
  void all_reduce() const {
    const std::size_t first = count() * place / members();
    const std::size_t elements = count() * (place + 1) / members() - first;
    reduce_part(first, elements);
    for (std::size_t i = 0; i < members(); ++i) {
      if (i != place) copy(place, i, first * width(), first * width(), elements * width());
    }
  }
  void all_gather() const {
    for (std::size_t i = 0; i < members(); ++i) {
      if (i != place) copy(i, place, i * part_bytes(), i * part_bytes(), part_bytes());
    }
  }
  std::size_t blocks() const { return static_cast<std::size_t>(*transfer.blocks); }
  std::size_t block_part() const { return count() / blocks() / members(); }
  void all_gather_blocks() const {
    const std::size_t bytes = block_part() * width();
    for (std::size_t b = 0; b < blocks() && bytes > 0; ++b) {
      for (std::size_t i = 0; i < members(); ++i) {
        std::memcpy(taken + (b * members() + i) * bytes, memory[i] + b * bytes, bytes);
      }
    }
  }
  void reduce_scatter_blocks() const {
    const std::size_t bytes = block_part() * width();
    for (std::size_t b = 0; b < blocks(); ++b) {
      std::vector<const std::byte*> sources;
      for (const std::byte* start : memory) {
        sources.push_back(start + (b * members() + place) * bytes);
      }
      reduce(transfer.reduction, transfer.element, precision, sources, block_part(),
             taken + b * bytes);
    }
  }
  void all_to_all() const {
    for (std::size_t i = place + 1; i < members(); ++i) {
      std::byte* mine = memory[place] + i * part_bytes();
      std::swap_ranges(mine, mine + part_bytes(), memory[i] + place * part_bytes());
    }
  }
  void copy(std::size_t from, std::size_t to, std::size_t source, std::size_t target,
            std::size_t bytes) const {
    if (bytes > 0) std::memcpy(memory[to] + target, memory[from] + source, bytes);
  }

  void run() const {
    switch (transfer.kind) {
      case TransferKind::AllReduce:
        return all_reduce();
      case TransferKind::ReduceScatter:
        if (transfer.blocks) return reduce_scatter_blocks();
        return reduce_part(count() / members() * place, count() / members());
      case TransferKind::AllGather:
        return transfer.blocks ? all_gather_blocks() : all_gather();
      case TransferKind::AllToAll:
        return all_to_all();
      case TransferKind::Broadcast:
        if (place != 0) copy(0, place, 0, 0, count() * width());
        return;
      case TransferKind::Send:
      case TransferKind::Receive:
        return;
    }
  }
};

}  // namespace

class ThreadEndpoint : public Transport {
 public:
  ThreadEndpoint(ThreadNetwork& network, DeviceId device) : network_(network), device_(device) {}

  void run(const Transfer& transfer, Precision precision, std::span<std::byte> range,
           std::span<std::byte> own) override {
    const std::size_t place = place_in_group(transfer, device_);
    if (transfer.kind == TransferKind::Send) return send(transfer, range);
    if (transfer.kind == TransferKind::Receive) return receive(transfer, range);
    if (is_sharded(transfer.kind) &&
        transfer.count %
                (static_cast<std::int64_t>(transfer.group.size()) * transfer.blocks.value_or(1)) !=
            0) {
      throw std::logic_error(fmt::format("{} has no equal parts", text_of(transfer)));
    }
    ThreadNetwork::Meeting& meeting = network_.meeting_of(transfer.group);
    const bool gives_own = transfer.blocks && transfer.kind == TransferKind::AllGather;
    std::byte* given = gives_own ? own.data() : range.data();
    const MemberWork work{transfer, precision, network_.meet(meeting, transfer, place, given),
                          place, gives_own ? range.data() : own.data()};
    work.run();
    network_.part(meeting);
  }

 private:
  void send(const Transfer& transfer, std::span<std::byte> range) {
    auto& channel = network_.channel_of(transfer.group[0], transfer.group[1]);
    std::vector<std::byte> copy(range.begin(), range.end());
    const std::lock_guard lock(network_.mutex_);
    network_.throw_if_failed();
    channel.sent.emplace_back(transfer, std::move(copy));
    channel.changed.notify_one();
  }

  void receive(const Transfer& transfer, std::span<std::byte> range) {
    auto& channel = network_.channel_of(transfer.group[0], transfer.group[1]);
    std::unique_lock lock(network_.mutex_);
    channel.changed.wait(lock, [&] { return !channel.sent.empty() || network_.failure_; });
    if (channel.sent.empty()) network_.throw_if_failed();
    const auto [sent, bytes] = std::move(channel.sent.front());
    channel.sent.pop_front();
    lock.unlock();
    if (sent.count != transfer.count || sent.element != transfer.element) {
      throw_mismatch(device_, transfer, sent);
    }
    std::ranges::copy(bytes, range.begin());
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
}

// A collective that all members have come to runs to its end, also after a failure: nobody may
// take memory away that others still work in. One that is not complete by then never starts.
std::vector<std::byte*> ThreadNetwork::meet(Meeting& meeting, const Transfer& transfer,
                                            std::size_t place, std::byte* memory) {
  std::unique_lock lock(mutex_);
  meeting.changed.wait(lock, [&] { return !meeting.working || failure_; });
  throw_if_failed();
  if (meeting.arrived == 0) meeting.transfer = transfer;
  if (!same_work(meeting.transfer, transfer)) {
    throw_mismatch(transfer.group[place], transfer, meeting.transfer);
  }
  meeting.members.resize(transfer.group.size());
  meeting.members[place] = memory;
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

void ThreadNetwork::throw_if_failed() const {
  if (failure_) throw PeerFailure(*failure_);
}

}  // namespace meshwright
