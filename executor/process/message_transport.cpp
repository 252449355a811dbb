#include "executor/process/message_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "costmodel/base/hash.h"
#include "executor/common_rows.h"
#include "executor/reduce.h"
#include "executor/shared_stretch.h"
#include "simulator/program/group_orders.h"

namespace meshwright {
namespace {

// A tensor without gaps, with its numbers.
struct Dense {
  Operand operand;
  std::vector<std::byte> bytes;

  Dense(const Extents& sizes, BufferElement element, std::size_t width)
      : operand(dense_operand(sizes, element)),
        bytes(static_cast<std::size_t>(element_count(operand)) * width) {}
  Placed placed() { return {&operand, bytes.data()}; }
};

Extents with_size(Extents sizes, std::size_t dim, std::int64_t size) {
  sizes[dim] = size;
  return sizes;
}

// One transfer as one process runs it.
class MessageRun {
 public:
  MessageRun(const Transfer& transfer, Precision precision, std::span<std::byte* const> buffers,
             const ProcessLinks& links, const std::map<DeviceId, std::size_t>& process_of,
             std::uint64_t attempt)
      : transfer_(transfer),
        precision_(precision),
        buffers_(buffers),
        links_(links),
        element_(element_of(transfer)),
        width_(static_cast<std::size_t>(bytes_per_element(element_, precision).value())) {
    for (const DeviceId device : transfer.group) members_.push_back(process_of.at(device));
    place_ = static_cast<std::size_t>(std::ranges::find(members_, links.self) - members_.begin());
    Hash channel;
    channel.add(is_pair(transfer.kind), transfer.group, attempt);
    head_ = {.channel = channel.value(), .work = work_hash(transfer, precision)};
    const std::string text = transfer_text(transfer);
    text.copy(head_.text.data(), head_.text.size() - 1);
  }

  void run() {
    switch (transfer_.kind) {
      case TransferKind::AllReduce:
        return all_reduce();
      case TransferKind::ReduceScatter:
        return reduce_scatter();
      case TransferKind::AllGather:
        return all_gather();
      case TransferKind::AllToAll:
        return all_to_all();
      case TransferKind::Broadcast:
        return broadcast();
      case TransferKind::Send:
        return send(1, whole_source().bytes);
      case TransferKind::Receive: {
        Dense dense(transfer_.target->sizes, element_, width_);
        receive(0, dense.bytes);
        return copy_elements(dense.placed(), {&*transfer_.target, buffers_[0]}, width_);
      }
    }
  }

 private:
  std::size_t count() const { return members_.size(); }

  void send(std::size_t place, std::span<const std::byte> bytes) {
    MessageHead head = head_;
    head.bytes = bytes.size();
    links_.links[members_[place]]->send(members_[place], head, bytes);
  }

  void receive(std::size_t place, std::span<std::byte> into) {
    const MessageHead head =
        links_.links[members_[place]]->receive(members_[place], head_.channel, into);
    if (head.work == head_.work && head.bytes == into.size()) return;
    const std::string mine = transfer_text(transfer_), other = head.text.data();
    throw std::logic_error(fmt::format("device {} runs {} where another runs {}{}",
                                       links_.devices[links_.self].index(), mine, other,
                                       mine == other ? " of another shape or kind" : ""));
  }

  // Calls visit(place) for all others, from the next one on, so that not all turn to the same one.
  template <class Visit>
  void for_others(Visit visit) {
    for (std::size_t i = 1; i < count(); ++i) visit((place_ + i) % count());
  }

  Dense whole_source() {
    Dense dense(transfer_.source->sizes, element_, width_);
    copy_elements({&*transfer_.source, buffers_[0]}, dense.placed(), width_);
    return dense;
  }

  // What a member has to get of the source, which is cut.
  Dense part_of_source(std::size_t place) {
    const Cut& cut = transfer_.source_cut;
    const Operand& source = *transfer_.source;
    const auto ranges = part_of(cut, source.sizes[cut.dim], place, count());
    Dense dense(with_size(source.sizes, cut.dim, size_of(ranges)), element_, width_);
    for (const SharedStretch& s : stretches(ranges, whole_of(ranges))) {
      const Operand from = narrowed(source, cut.dim, s.from, s.size);
      const Operand to = narrowed(dense.operand, cut.dim, s.to, s.size);
      copy_elements({&from, buffers_[0]}, {&to, dense.bytes.data()}, width_);
    }
    return dense;
  }

  // What a member gives to the target, which is cut.
  Dense part_for_target(std::size_t place) const {
    const auto ranges = target_ranges(place);
    return {with_size(transfer_.target->sizes, transfer_.target_cut.dim, size_of(ranges)), element_,
            width_};
  }
  void put_into_target(std::size_t place, Dense& dense) {
    const std::size_t dim = transfer_.target_cut.dim;
    const auto ranges = target_ranges(place);
    for (const SharedStretch& s : stretches(whole_of(ranges), ranges)) {
      const Operand from = narrowed(dense.operand, dim, s.from, s.size);
      const Operand to = narrowed(*transfer_.target, dim, s.to, s.size);
      copy_elements({&from, dense.bytes.data()}, {&to, buffers_[1]}, width_);
    }
  }
  std::vector<ShardRange> target_ranges(std::size_t place) const {
    const Cut& cut = transfer_.target_cut;
    return part_of(cut, transfer_.target->sizes[cut.dim], place, count());
  }
  void put_target(Dense& dense) {
    copy_elements(dense.placed(), {&*transfer_.target, buffers_[1]}, width_);
  }

  // Adds up what all have, `own` at its place, into `result`.
  void reduce_with_others(std::span<std::byte> own, std::span<std::byte> result) {
    std::vector<std::vector<std::byte>> received(count());
    std::vector<Row> rows(count(), Row{own.data()});
    for_others([&](std::size_t place) {
      received[place].resize(own.size());
      receive(place, received[place]);
      rows[place].start = received[place].data();
    });
    reduce(transfer_.reduction, element_, precision_, rows, own.size() / width_,
           Row{result.data()});
  }

  // Bytes of the share of a member among all elements.
  std::span<std::byte> share_of(std::span<std::byte> whole, std::size_t place) const {
    const std::size_t elements = whole.size() / width_;
    const std::size_t first = elements * place / count(), end = elements * (place + 1) / count();
    return whole.subspan(first * width_, (end - first) * width_);
  }

  // Each member reduces a share of all elements and gives it to the others. Of few elements each
  // reduces all, which takes one turn instead of two.
  void all_reduce() {
    Dense dense = whole_source();
    const std::span<std::byte> whole = dense.bytes;
    constexpr std::size_t kFewBytes = 4096;
    if (whole.size() <= kFewBytes) {
      for_others([&](std::size_t place) { send(place, whole); });
      reduce_with_others(whole, whole);
      return put_target(dense);
    }
    for_others([&](std::size_t place) { send(place, share_of(whole, place)); });
    const std::span<std::byte> own = share_of(whole, place_);
    reduce_with_others(own, own);
    for_others([&](std::size_t place) { send(place, own); });
    for_others([&](std::size_t place) { receive(place, share_of(whole, place)); });
    put_target(dense);
  }

  void reduce_scatter() {
    for_others([&](std::size_t place) { send(place, part_of_source(place).bytes); });
    Dense own = part_of_source(place_);
    reduce_with_others(own.bytes, own.bytes);
    put_target(own);
  }

  void all_gather() {
    Dense own = whole_source();
    for_others([&](std::size_t place) { send(place, own.bytes); });
    put_into_target(place_, own);
    receive_parts();
  }

  void all_to_all() {
    for_others([&](std::size_t place) { send(place, part_of_source(place).bytes); });
    Dense own = part_of_source(place_);
    put_into_target(place_, own);
    receive_parts();
  }

  void receive_parts() {
    for_others([&](std::size_t place) {
      Dense dense = part_for_target(place);
      receive(place, dense.bytes);
      put_into_target(place, dense);
    });
  }

  void broadcast() {
    Dense dense(transfer_.target->sizes, element_, width_);
    if (place_ == 0) {
      dense = whole_source();
      for_others([&](std::size_t place) { send(place, dense.bytes); });
    } else {
      receive(0, dense.bytes);
    }
    put_target(dense);
  }

  const Transfer& transfer_;
  Precision precision_;
  std::span<std::byte* const> buffers_;
  const ProcessLinks& links_;
  BufferElement element_;
  std::size_t width_;
  std::vector<std::size_t> members_;  // processes, by place in the group
  std::size_t place_ = 0;
  MessageHead head_;
};

}  // namespace

MessageTransport::MessageTransport(ProcessLinks links, Exchange exchange, std::uint64_t attempt)
    : links_(std::move(links)), exchange_(std::move(exchange)), attempt_(attempt) {
  for (std::size_t p = 0; p < links_.devices.size(); ++p) process_of_[links_.devices[p]] = p;
}

void MessageTransport::run(const Transfer& transfer, Precision precision,
                           std::span<std::byte* const> buffers) {
  const DeviceId self = links_.devices[links_.self];
  if (const auto fault = fault_of(transfer, self)) {
    throw std::logic_error(
        fmt::format("device {} cannot run {}: {}", self.index(), transfer_text(transfer), *fault));
  }
  assert(buffers.size() == (is_pair(transfer.kind) ? 1 : 2));
  MessageRun(transfer, precision, buffers, links_, process_of_, attempt_).run();
}

std::vector<std::string> MessageTransport::exchange(const std::vector<DeviceId>& group,
                                                    std::string given) {
  if (group != links_.devices) throw std::logic_error("processes exchange texts all together");
  return exchange_(given);
}

void MessageTransport::give_up(const std::string& reason) {
  for (Links* const links : links_.links) {
    if (links != nullptr) links->fail(reason);
  }
}

}  // namespace meshwright
