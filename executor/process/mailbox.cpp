#include "executor/process/mailbox.h"

#include <cassert>
#include <cstring>

namespace meshwright {
namespace {

std::span<std::byte> bytes_of(MessageHead& head) {
  return std::as_writable_bytes(std::span(&head, 1));
}

void hand_over(Mailbox::Wanted& wanted, const MessageHead& head, std::span<const std::byte> bytes) {
  if (bytes.size() == wanted.into.size() && !bytes.empty()) {
    std::memcpy(wanted.into.data(), bytes.data(), bytes.size());
  }
  wanted.head = head;
}

}  // namespace

std::span<std::byte> Mailbox::room(std::size_t from) {
  Arriving& message = arriving_[from];
  if (!message.has_head) return bytes_of(message.head).subspan(message.done);
  const std::span<std::byte> whole =
      message.wanted != nullptr ? message.wanted->into : message.block.bytes();
  return whole.subspan(message.done);
}

void Mailbox::arrived(std::size_t from, std::size_t bytes) {
  Arriving& message = arriving_[from];
  message.done += bytes;
  if (!message.has_head) {
    if (message.done < sizeof(MessageHead)) return;
    start(from, message);
  }
  if (message.done == message.head.bytes) finish(from, message);
}

void Mailbox::start(std::size_t from, Arriving& message) {
  message.has_head = true;
  message.done = 0;
  const auto wanted = wanted_.find({from, message.head.channel});
  if (wanted != wanted_.end() && wanted->second->into.size() == message.head.bytes) {
    message.wanted = wanted->second;
  } else {
    message.block = pool_.take(message.head.bytes);
  }
}

void Mailbox::finish(std::size_t from, Arriving& message) {
  const Channel channel{from, message.head.channel};
  const auto wanted = wanted_.find(channel);
  if (message.wanted != nullptr) {
    message.wanted->head = message.head;
    wanted_.erase(wanted);
  } else if (wanted != wanted_.end()) {
    hand_over(*wanted->second, message.head, message.block.bytes());
    wanted_.erase(wanted);
    pool_.give_back(std::move(message.block));
  } else {
    kept_[channel].push_back({message.head, std::move(message.block)});
  }
  message = {};
}

void Mailbox::want(Wanted& wanted) {
  const Channel channel{wanted.from, wanted.channel};
  const auto kept = kept_.find(channel);
  if (kept == kept_.end()) {
    [[maybe_unused]] const bool added = wanted_.emplace(channel, &wanted).second;
    assert(added);
    return;
  }
  Kept& message = kept->second.front();
  hand_over(wanted, message.head, message.block.bytes());
  pool_.give_back(std::move(message.block));
  kept->second.pop_front();
  if (kept->second.empty()) kept_.erase(kept);
}

void Mailbox::give_up(Wanted& wanted) {
  if (wanted.head) return;
  wanted_.erase({wanted.from, wanted.channel});
  Arriving& message = arriving_[wanted.from];
  if (message.wanted != &wanted) return;
  // The rest of it still comes, to nobody.
  message.wanted = nullptr;
  message.block = pool_.take(message.head.bytes);
}

}  // namespace meshwright
