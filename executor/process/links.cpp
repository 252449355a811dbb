#include "executor/process/links.h"

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
  queue_rest(to, std::as_bytes(std::span(&head, 1)));
  queue_rest(to, bytes);
}

// Straight from the caller's memory as far as there is room and nothing stands before it.
void Links::queue_rest(std::size_t to, std::span<const std::byte> bytes) {
  Queue& queue = queues_[to];
  if (queue.parts.empty()) bytes = bytes.subspan(streams_->write(to, bytes));
  if (bytes.empty()) return;
  if (queue.parts.empty()) streams_->wake(Waiter::Background);
  queue.parts.emplace_back(bytes.begin(), bytes.end());
}

MessageHead Links::receive(std::size_t from, std::uint64_t channel, std::span<std::byte> into) {
  std::unique_lock lock(mutex_);
  Mailbox::Wanted wanted{from, channel, into, {}};
  mailbox_.want(wanted);
  try {
    while (!wanted.head) {
      throw_if_failed();
      const std::uint32_t moment = streams_->moment(Waiter::Caller);
      if (move_all() || wanted.head) continue;
      caller_waits_ = true;
      lock.unlock();
      streams_->wait(Waiter::Caller, moment);
      lock.lock();
      caller_waits_ = false;
    }
    streams_->stop_waiting();
    move_all();
  } catch (...) {
    mailbox_.give_up(wanted);
    streams_->stop_waiting();
    throw;
  }
  return *wanted.head;
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
  Queue& queue = queues_[to];
  bool moved = false;
  while (!queue.parts.empty()) {
    const std::span<const std::byte> rest = std::span(queue.parts.front()).subspan(queue.done);
    const std::size_t bytes = streams_->write(to, rest);
    moved |= bytes > 0;
    queue.done += bytes;
    if (bytes < rest.size()) break;
    queue.parts.pop_front();
    queue.done = 0;
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
