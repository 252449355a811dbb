#include "executor/process/links.h"

#include <cstring>
#include <utility>

#include "executor/transport.h"

namespace meshwright {

Links::Links(std::unique_ptr<Streams> streams, std::vector<std::size_t> peers,
             std::size_t processes)
    : streams_(std::move(streams)),
      peers_(std::move(peers)),
      mailbox_(processes),
      queues_(processes),
      background_([this](const std::stop_token& done) { run_background(done); }) {}

Links::~Links() {
  background_.request_stop();
  streams_->wake(Waiter::Background);
}

void Links::send(std::size_t to, const MessageHead& head, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  throw_if_failed();
  queue_rest(to, std::as_bytes(std::span(&head, 1)), false);
  queue_rest(to, bytes, false);
}

void Links::lend(std::size_t to, const MessageHead& head, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  throw_if_failed();
  queue_rest(to, std::as_bytes(std::span(&head, 1)), false);
  queue_rest(to, bytes, true);
}

// Straight from the caller's memory as far as there is room and nothing stands before it.
void Links::queue_rest(std::size_t to, std::span<const std::byte> bytes, bool lent) {
  auto& queue = queues_[to];
  if (queue.empty()) bytes = bytes.subspan(streams_->write(to, bytes));
  if (bytes.empty()) return;
  if (queue.empty() && !lent) streams_->wake(Waiter::Background);
  queue.push_back(lent ? Part{bytes, true} : copied(bytes));
  lent_ += lent;
}

Links::Part Links::copied(std::span<const std::byte> bytes) {
  MessageBlock block = pool_.take(bytes.size());
  std::memcpy(block.memory.get(), bytes.data(), bytes.size());
  const std::span<const std::byte> all = block.bytes();
  return {all, false, std::move(block)};
}

template <class Condition>
void Links::move_until(std::unique_lock<std::mutex>& lock, Condition reached) {
  try {
    while (!reached()) {
      throw_if_failed();
      const std::uint32_t moment = streams_->moment(Waiter::Caller);
      if (move_all() || reached()) continue;
      caller_waits_ = true;
      lock.unlock();
      streams_->wait(Waiter::Caller, moment);
      lock.lock();
      caller_waits_ = false;
    }
    streams_->stop_waiting();
    move_all();
  } catch (...) {
    streams_->stop_waiting();
    throw;
  }
}

MessageHead Links::receive(std::size_t from, std::uint64_t channel, std::span<std::byte> into) {
  std::unique_lock lock(mutex_);
  Mailbox::Wanted wanted{from, channel, into, {}};
  mailbox_.want(wanted);
  try {
    move_until(lock, [&] { return wanted.head.has_value(); });
  } catch (...) {
    mailbox_.give_up(wanted);
    throw;
  }
  return *wanted.head;
}

void Links::wait_for_lent() {
  std::unique_lock lock(mutex_);
  move_until(lock, [&] { return lent_ == 0; });
}

void Links::copy_lent() {
  const std::lock_guard lock(mutex_);
  for (auto& queue : queues_) {
    for (Part& part : queue) {
      if (part.lent) part = copied(part.rest);
    }
  }
  if (std::exchange(lent_, 0) > 0) streams_->wake(Waiter::Background);
}

bool Links::move_all() {
  bool moved = false;
  for (const std::size_t peer : peers_) {
    moved |= take_in(peer);
    moved |= send_queued(peer);
  }
  return moved;
}

bool Links::take_in(std::size_t from) {
  bool moved = false;
  for (;;) {
    const std::size_t bytes = streams_->read(from, mailbox_.room(from));
    if (bytes == 0) return moved;
    mailbox_.arrived(from, bytes);
    moved = true;
  }
}

bool Links::send_queued(std::size_t to) {
  auto& queue = queues_[to];
  bool moved = false;
  while (!queue.empty()) {
    Part& part = queue.front();
    const std::size_t bytes = streams_->write(to, part.rest);
    moved |= bytes > 0;
    part.rest = part.rest.subspan(bytes);
    if (!part.rest.empty()) break;
    lent_ -= part.lent;
    pool_.give_back(std::move(part.copy));
    queue.pop_front();
  }
  return moved;
}

void Links::run_background(const std::stop_token& done) {
  while (!done.stop_requested()) {
    const std::uint32_t moment = streams_->moment(Waiter::Background);
    bool moved = false;
    {
      const std::lock_guard lock(mutex_);
      try {
        moved = !failure_ && move_all();
      } catch (const PeerFailure& failure) {
        failure_ = failure.what();
        moved = true;
      }
      // What the caller waits for may have come, and nothing else would tell it.
      if (moved && caller_waits_) streams_->wake(Waiter::Caller);
    }
    if (!moved) streams_->wait(Waiter::Background, moment);
  }
}

void Links::fail(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = reason;
  }
  streams_->wake(Waiter::Caller);
}

void Links::forget_failure() {
  const std::lock_guard lock(mutex_);
  failure_.reset();
}

void Links::throw_if_failed() const {
  if (failure_) throw PeerFailure(*failure_);
}

}  // namespace meshwright
