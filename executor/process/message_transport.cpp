#include "executor/process/message_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <optional>
#include <vector>

#include "costmodel/base/hash.h"
#include "executor/common_rows.h"
#include "executor/reduce.h"
#include "executor/shared_stretch.h"
#include "simulator/program/group_orders.h"

namespace meshwright {
namespace {

Extents with_size(Extents sizes, std::size_t dim, std::int64_t size) {
  sizes[dim] = size;
  return sizes;
}

// Where an operand lies, if it has no gaps.
std::optional<std::span<std::byte>> dense_bytes(const Operand& operand, std::byte* buffer,
                                                std::size_t width) {
  if (!is_dense(operand)) return {};
  return std::span(buffer + operand.offset * static_cast<std::int64_t>(width),
                   static_cast<std::size_t>(element_count(operand)) * width);
}

// Numbers without gaps.
struct Dense {
  Operand operand;
  std::span<std::byte> bytes;
  bool is_copy = false;  // or where the operand itself lies

  Placed placed() const { return {&operand, bytes.data()}; }
};

// One transfer as one process runs it.
class MessageRun {
 public:
  MessageRun(const Transfer& transfer, Precision precision, std::span<std::byte* const> buffers,
             const ProcessLinks& links, const std::map<DeviceId, std::size_t>& process_of,
             std::uint64_t attempt, BlockPool& pool)
      : transfer_(transfer),
        precision_(precision),
        buffers_(buffers),
        links_(links),
        pool_(pool),
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
    try {
      run_kind();
    } catch (...) {
      for_others([&](std::size_t place) { links_to(place).copy_lent(); });
      throw;
    }
    for (MessageBlock& block : blocks_) pool_.give_back(std::move(block));
  }

 private:
  void run_kind() {
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
        return send_to_other();
      case TransferKind::Receive:
        return receive_from_other();
    }
  }

  std::size_t count() const { return members_.size(); }
  Links& links_to(std::size_t place) const { return *links_.links[members_[place]]; }
  MessageHead head_for(std::span<const std::byte> bytes) const {
    MessageHead head = head_;
    head.bytes = bytes.size();
    return head;
  }

  void send(std::size_t place, std::span<const std::byte> bytes) {
    links_to(place).send(members_[place], head_for(bytes), bytes);
  }
  // The bytes stay as they are until `wait_for_lent`.
  void lend(std::size_t place, std::span<const std::byte> bytes) {
    links_to(place).lend(members_[place], head_for(bytes), bytes);
  }
  void wait_for_lent() {
    for_others([&](std::size_t place) { links_to(place).wait_for_lent(); });
  }

  void receive(std::size_t place, std::span<std::byte> into) {
    const MessageHead head = links_to(place).receive(members_[place], head_.channel, into);
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

  // For as long as the transfer runs.
  std::span<std::byte> scratch(std::size_t bytes) {
    blocks_.push_back(pool_.take(bytes));
    return blocks_.back().bytes();
  }
  Dense copy_of_sizes(const Extents& sizes) {
    const Operand operand = dense_operand(sizes, element_);
    return {operand, scratch(static_cast<std::size_t>(element_count(operand)) * width_), true};
  }
  // For what an operand is to hold: any content.
  Dense room_for(const Operand& operand, std::byte* buffer) {
    const auto own = dense_bytes(operand, buffer, width_);
    return own ? Dense{dense_operand(operand.sizes, element_), *own} : copy_of_sizes(operand.sizes);
  }
  Dense read(const Operand& operand, std::byte* buffer) {
    Dense dense = room_for(operand, buffer);
    if (dense.is_copy) copy_elements({&operand, buffer}, dense.placed(), width_);
    return dense;
  }

  Dense whole_source() { return read(*transfer_.source, buffers_[0]); }

  // What a member has to get of the source, which is cut.
  Dense part_of_source(std::size_t place) {
    const Cut& cut = transfer_.source_cut;
    const Operand& source = *transfer_.source;
    const auto ranges = part_of(cut, source.sizes[cut.dim], place, count());
    const auto all = stretches(ranges, whole_of(ranges));
    if (all.size() == 1) {
      return read(narrowed(source, cut.dim, all[0].from, all[0].size), buffers_[0]);
    }
    Dense dense = copy_of_sizes(with_size(source.sizes, cut.dim, size_of(ranges)));
    for (const SharedStretch& s : all) {
      const Operand from = narrowed(source, cut.dim, s.from, s.size);
      const Operand to = narrowed(dense.operand, cut.dim, s.to, s.size);
      copy_elements({&from, buffers_[0]}, {&to, dense.bytes.data()}, width_);
    }
    return dense;
  }
  // Gives each of the others its part.
  void lend_parts() {
    for_others([&](std::size_t place) { lend(place, part_of_source(place).bytes); });
  }

  std::vector<ShardRange> target_ranges(std::size_t place) const {
    const Cut& cut = transfer_.target_cut;
    return part_of(cut, transfer_.target->sizes[cut.dim], place, count());
  }
  // For what a member gives to the target, which is cut.
  Dense room_in_target(std::size_t place) {
    const std::size_t dim = transfer_.target_cut.dim;
    const auto ranges = target_ranges(place);
    const auto all = stretches(whole_of(ranges), ranges);
    if (all.size() == 1) {
      return room_for(narrowed(*transfer_.target, dim, all[0].to, all[0].size), buffers_[1]);
    }
    return copy_of_sizes(with_size(transfer_.target->sizes, dim, size_of(ranges)));
  }
  void put_into_target(std::size_t place, const Dense& dense) {
    const std::size_t dim = transfer_.target_cut.dim;
    const auto ranges = target_ranges(place);
    for (const SharedStretch& s : stretches(whole_of(ranges), ranges)) {
      const Operand from = narrowed(dense.operand, dim, s.from, s.size);
      const Operand to = narrowed(*transfer_.target, dim, s.to, s.size);
      copy_elements({&from, dense.bytes.data()}, {&to, buffers_[1]}, width_);
    }
  }
  Dense room_for_target() { return room_for(*transfer_.target, buffers_[1]); }
  void put_target(const Dense& dense) {
    copy_elements(dense.placed(), {&*transfer_.target, buffers_[1]}, width_);
  }

  // Adds up what all have, `own` at its place, into `result`.
  void reduce_with_others(std::span<std::byte> own, std::span<std::byte> result) {
    std::vector<Row> rows(count(), Row{own.data()});
    for_others([&](std::size_t place) {
      const std::span<std::byte> received = scratch(own.size());
      receive(place, received);
      rows[place].start = received.data();
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
  // reduces all, which takes one turn instead of two. Source and target may be the same memory:
  // whoever sends a reduced share has had this member's part of it.
  void all_reduce() {
    const Dense source = whole_source(), target = room_for_target();
    constexpr std::size_t kFewBytes = 4096;
    if (source.bytes.size() <= kFewBytes) {
      for_others([&](std::size_t place) { send(place, source.bytes); });
      reduce_with_others(source.bytes, target.bytes);
    } else {
      for_others([&](std::size_t place) { lend(place, share_of(source.bytes, place)); });
      const std::span<std::byte> own = share_of(target.bytes, place_);
      reduce_with_others(share_of(source.bytes, place_), own);
      for_others([&](std::size_t place) { lend(place, own); });
      for_others([&](std::size_t place) { receive(place, share_of(target.bytes, place)); });
      wait_for_lent();
    }
    put_target(target);
  }

  void reduce_scatter() {
    lend_parts();
    const Dense own = part_of_source(place_), target = room_for_target();
    reduce_with_others(own.bytes, target.bytes);
    wait_for_lent();
    put_target(target);
  }

  void all_gather() {
    const Dense own = whole_source();
    for_others([&](std::size_t place) { lend(place, own.bytes); });
    put_into_target(place_, own);
    receive_parts();
    wait_for_lent();
  }

  void all_to_all() {
    lend_parts();
    const Dense own = part_of_source(place_);
    put_into_target(place_, own);
    receive_parts();
    wait_for_lent();
  }

  void receive_parts() {
    for_others([&](std::size_t place) {
      const Dense dense = room_in_target(place);
      receive(place, dense.bytes);
      if (dense.is_copy) put_into_target(place, dense);
    });
  }

  void broadcast() {
    if (place_ == 0) {
      const Dense source = whole_source();
      for_others([&](std::size_t place) { lend(place, source.bytes); });
      put_target(source);
      wait_for_lent();
      return;
    }
    const Dense target = room_for_target();
    receive(0, target.bytes);
    put_target(target);
  }

  void send_to_other() {
    const Dense source = whole_source();
    send(1, source.bytes);
  }
  void receive_from_other() {
    const Dense target = room_for(*transfer_.target, buffers_[0]);
    receive(0, target.bytes);
    copy_elements(target.placed(), {&*transfer_.target, buffers_[0]}, width_);
  }

  const Transfer& transfer_;
  Precision precision_;
  std::span<std::byte* const> buffers_;
  const ProcessLinks& links_;
  BlockPool& pool_;
  BufferElement element_;
  std::size_t width_;
  std::vector<std::size_t> members_;  // processes, by place in the group
  std::size_t place_ = 0;
  MessageHead head_;
  std::vector<MessageBlock> blocks_;
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
  MessageRun(transfer, precision, buffers, links_, process_of_, attempt_, pool_).run();
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
