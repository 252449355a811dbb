#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "executor/process/mailbox.h"
#include "executor/process/streams.h"

namespace meshwright {

// Messages between this process and others, by their numbers. Sending never waits: what does not
// go out at once is sent by a thread of its own, which also takes in what comes while the caller
// computes. A caller that waits moves things itself.
class Links {
 public:
  // `peers` are those that `streams` reach, among so many processes.
  Links(std::unique_ptr<Streams> streams, std::vector<std::size_t> peers, std::size_t processes);
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  void send(std::size_t to, const MessageHead& head, std::span<const std::byte> bytes);
  // The same without a copy: the bytes must stay as they are until all that is lent has gone, which
  // `wait_for_lent` waits for, or is copied after all.
  void lend(std::size_t to, const MessageHead& head, std::span<const std::byte> bytes);
  void wait_for_lent();
  void copy_lent();
  // Waits for the channel's next message. Bytes of another number than asked for are dropped: the
  // head says how many there were.
  MessageHead receive(std::size_t from, std::uint64_t channel, std::span<std::byte> into);
  // What waits or comes later throws PeerFailure with this reason, until it is forgotten. The first
  // reason stays.
  void fail(const std::string& reason);
  void forget_failure();

 private:
  struct Part {
    std::span<const std::byte> rest;  // that has not gone
    bool lent = false;
    MessageBlock copy = {};  // of what is not
  };

  // Whether anything moved.
  bool move_all();
  bool take_in(std::size_t from);
  bool send_queued(std::size_t to);
  void queue_rest(std::size_t to, std::span<const std::byte> bytes, bool lent);
  Part copied(std::span<const std::byte> bytes);
  // Moves things until it is true.
  template <class Condition>
  void move_until(std::unique_lock<std::mutex>& lock, Condition reached);
  void run_background(const std::stop_token& done);
  void throw_if_failed() const;

  std::unique_ptr<Streams> streams_;
  std::vector<std::size_t> peers_;
  std::mutex mutex_;  // guards what follows, and what the streams hold
  Mailbox mailbox_;
  BlockPool pool_;
  std::vector<std::deque<Part>> queues_;  // by process
  std::size_t lent_ = 0;                  // parts of them
  std::optional<std::string> failure_;
  bool caller_waits_ = false;
  std::jthread background_;
};

}  // namespace meshwright
