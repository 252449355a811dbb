#include "executor/process/shared_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <system_error>
#include <vector>

namespace meshwright {
namespace {

// Small enough for the second cache, so that what one process wrote the other reads from there.
constexpr std::size_t kRingBytes = 512 * 1024;

constexpr std::size_t memory_bytes(std::size_t processes) {
  return processes * sizeof(SharedMemory::Bell) +
         processes * processes * (sizeof(Ring::Control) + kRingBytes);
}

[[noreturn]] void throw_system(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// Words of memory that several processes have.
void wait_for_change(std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  const struct timespec longest { 0, 100'000'000 };
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &longest, nullptr, 0);
}
void wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// A short wait costs less than sleeping, where the other process has a core of its own.
bool changes_soon(const std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  for (int i = 0; i < 200; ++i) {
    if (word.load(std::memory_order_relaxed) != seen) return true;
  }
  return false;
}

class SharedStreams : public Streams {
 public:
  SharedStreams(std::shared_ptr<const SharedMemory> memory, std::vector<std::size_t> places,
                std::size_t self)
      : memory_(std::move(memory)), places_(std::move(places)), self_(self) {}

  std::size_t write(std::size_t to, std::span<const std::byte> bytes) override {
    if (bytes.empty()) return 0;
    Ring ring = memory_->ring(self_, places_[to]);
    std::size_t done = ring.write(bytes);
    const bool full = done < bytes.size();
    if (full) {
      ring.want_room();
      done += ring.write(bytes.subspan(done));
    }
    if (done > 0 || full) ring_bell(memory_->bell(places_[to]), full);
    return done;
  }

  std::size_t read(std::size_t from, std::span<std::byte> bytes) override {
    Ring ring = memory_->ring(places_[from], self_);
    const std::size_t done = ring.read(bytes);
    if (done > 0 && ring.take_wish_for_room()) ring_bell(memory_->bell(places_[from]), true);
    return done;
  }

  std::uint32_t moment(Waiter who) override {
    SharedMemory::Bell& own = memory_->bell(self_);
    if (who == Waiter::Background) return own.background.load();
    own.caller_waits.store(1);
    return own.caller.load();
  }

  void wait(Waiter who, std::uint32_t moment) override {
    SharedMemory::Bell& own = memory_->bell(self_);
    if (who == Waiter::Caller) {
      if (!changes_soon(own.caller, moment)) wait_for_change(own.caller, moment);
      return;
    }
    own.background_waits.store(1);
    wait_for_change(own.background, moment);
    own.background_waits.store(0);
  }

  void stop_waiting() override { memory_->bell(self_).caller_waits.store(0); }

  void wake(Waiter who) override {
    SharedMemory::Bell& own = memory_->bell(self_);
    auto& word = who == Waiter::Caller ? own.caller : own.background;
    ++word;
    wake_all(word);
  }

 private:
  // A caller that waits moves everything itself; before it leaves it looks once more. Otherwise
  // what waits in the ring is as good as there, and the thread in the background is woken only
  // where something stands still without it.
  static void ring_bell(SharedMemory::Bell& bell, bool stands_still) {
    ++bell.caller;
    if (bell.caller_waits.load() != 0) return wake_all(bell.caller);
    if (!stands_still) return;
    ++bell.background;
    if (bell.background_waits.load() != 0) wake_all(bell.background);
  }

  std::shared_ptr<const SharedMemory> memory_;
  std::vector<std::size_t> places_;
  std::size_t self_;
};

}  // namespace

void SharedMemory::Unmap::operator()(std::byte* start) const { ::munmap(start, bytes); }

SharedMemory::SharedMemory(FileDescriptor file, std::size_t processes)
    : file_(std::move(file)), processes_(processes), memory_(nullptr, {memory_bytes(processes)}) {
  void* const start = ::mmap(nullptr, memory_bytes(processes), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_NORESERVE, file_.number(), 0);
  if (start == MAP_FAILED) throw_system("shared memory cannot be mapped");
  memory_.reset(static_cast<std::byte*>(start));
}

SharedMemory SharedMemory::make(std::size_t processes) {
  FileDescriptor file(::memfd_create("meshwright", MFD_CLOEXEC));
  if (!file.is_open() ||
      ::ftruncate(file.number(), static_cast<off_t>(memory_bytes(processes))) != 0) {
    throw_system("shared memory cannot be made");
  }
  return SharedMemory(std::move(file), processes);
}

SharedMemory SharedMemory::open(pid_t maker, int number, std::size_t processes) {
  const std::string path = fmt::format("/proc/{}/fd/{}", maker, number);
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.is_open()) throw_system("the shared memory of process " + std::to_string(maker));
  return SharedMemory(std::move(file), processes);
}

SharedMemory::Bell& SharedMemory::bell(std::size_t process) const {
  return reinterpret_cast<Bell*>(memory_.get())[process];
}

Ring SharedMemory::ring(std::size_t from, std::size_t to) const {
  const std::size_t index = from * processes_ + to, rings = processes_ * processes_;
  auto* const controls =
      reinterpret_cast<Ring::Control*>(memory_.get() + processes_ * sizeof(Bell));
  auto* const bytes = reinterpret_cast<std::byte*>(controls + rings);
  return Ring(controls[index], bytes + index * kRingBytes, kRingBytes);
}

std::unique_ptr<Streams> shared_streams(std::shared_ptr<const SharedMemory> memory,
                                        std::vector<std::size_t> places, std::size_t self) {
  return std::make_unique<SharedStreams>(std::move(memory), std::move(places), self);
}

}  // namespace meshwright
