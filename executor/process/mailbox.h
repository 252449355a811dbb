#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "executor/process/block_pool.h"

namespace meshwright {

// What stands before the bytes of a message.
struct MessageHead {
  std::uint64_t channel = 0;  // messages of a channel are taken in the order they were sent
  std::uint64_t work = 0;     // the same where both ends mean the same
  std::uint64_t bytes = 0;
  std::array<char, 104> text{};  // what it is, in words, for an error; ends with 0
};

// Messages that come in from other processes as streams of bytes. One whose receiver waits goes to
// where he wants it, others are kept.
class Mailbox {
 public:
  // What a receiver waits for.
  struct Wanted {
    std::size_t from = 0;
    std::uint64_t channel = 0;
    std::span<std::byte> into;
    std::optional<MessageHead> head;  // there when all of it has come; `into` is left alone where
                                      // the size is another
  };

  explicit Mailbox(std::size_t processes) : arriving_(processes) {}
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Where the next bytes from a process go, never nowhere; then how many came.
  std::span<std::byte> room(std::size_t from);
  void arrived(std::size_t from, std::size_t bytes);

  // `wanted` must stay where it is until it has its head or is given up. One for a channel at a
  // time.
  void want(Wanted& wanted);
  void give_up(Wanted& wanted);

 private:
  struct Kept {
    MessageHead head;
    MessageBlock block;
  };
  struct Arriving {
    MessageHead head;
    bool has_head = false;
    std::size_t done = 0;      // of the head, then of the bytes
    Wanted* wanted = nullptr;  // whose memory it goes to
    MessageBlock block;        // or this one
  };
  using Channel = std::pair<std::size_t, std::uint64_t>;

  void start(std::size_t from, Arriving& message);
  void finish(std::size_t from, Arriving& message);

  BlockPool pool_;
  std::vector<Arriving> arriving_;  // by process
  std::map<Channel, std::deque<Kept>> kept_;
  std::map<Channel, Wanted*> wanted_;
};

}  // namespace meshwright
