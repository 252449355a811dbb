#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace meshwright {

// A stream of bytes from one process to another, in memory that both have and that was 0 when it
// began. One thread writes and one reads at a time.
class Ring {
 public:
  struct Control {
    alignas(64) std::atomic<std::uint64_t> written;
    alignas(64) std::atomic<std::uint64_t> read;
    std::atomic<std::uint32_t> wants_room;  // the writer has more than there was room for
  };
  // `bytes` is a multiple of a piece.
  Ring(Control& control, std::byte* memory, std::size_t bytes)
      : control_(&control), memory_(memory), bytes_(bytes) {}

  // How many bytes went in. What is in may be read before the rest has followed.
  std::size_t write(std::span<const std::byte> from) {
    std::size_t done = 0;
    while (done < from.size()) {
      const std::uint64_t written = control_->written.load(std::memory_order_relaxed);
      const std::uint64_t read = control_->read.load(std::memory_order_acquire);
      const std::size_t size =
          piece_at(written, std::min(from.size() - done, bytes_ - (written - read)));
      if (size == 0) break;
      std::memcpy(memory_ + written % bytes_, from.data() + done, size);
      control_->written.store(written + size, std::memory_order_release);
      done += size;
    }
    return done;
  }

  std::size_t read(std::span<std::byte> to) {
    std::size_t done = 0;
    while (done < to.size()) {
      const std::uint64_t read = control_->read.load(std::memory_order_relaxed);
      const std::uint64_t written = control_->written.load(std::memory_order_acquire);
      const std::size_t size = piece_at(read, std::min(to.size() - done, written - read));
      if (size == 0) break;
      std::memcpy(to.data() + done, memory_ + read % bytes_, size);
      control_->read.store(read + size, std::memory_order_release);
      done += size;
    }
    return done;
  }

  // The writer asks, then tries once more; the reader looks after it has read. One of them sees
  // what the other did.
  void want_room() { control_->wants_room.store(1); }
  bool take_wish_for_room() {
    return control_->wants_room.load() != 0 && control_->wants_room.exchange(0) != 0;
  }

 private:
  // So that one side can work on a piece while the other is still at the next one.
  static constexpr std::size_t kPiece = 64 * 1024;

  // Not beyond the end of the memory, where the ring begins again.
  std::size_t piece_at(std::uint64_t place, std::size_t most) const {
    return std::min({most, kPiece, bytes_ - static_cast<std::size_t>(place % bytes_)});
  }

  Control* control_;
  std::byte* memory_;
  std::size_t bytes_;
};

}  // namespace meshwright
