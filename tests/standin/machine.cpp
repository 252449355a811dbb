#include "tests/standin/machine.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace meshwright::standin {

double Machine::now_s() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Machine::restart(const Options& options) {
  const Lock held = lock();
  options_ = options;
  random_.seed(options.seed);
  memory_.clear();
  memory_.set_guarded(options.guarded);
  streams_.clear();
  defaults_.clear();
  events_.clear();
  calls_.clear();
  faults_.clear();
  left_out_.reset();
  last_move_s_ = now_s();
  devices_.assign(static_cast<std::size_t>(options.devices), {});
  for (int i = 0; i < options.devices; ++i) defaults_.push_back(add_stream(i));
}

std::optional<std::int64_t> Machine::begins(const std::string& function) {
  const std::int64_t call = ++calls_[function];
  const auto& failure = options_.failure;
  if (failure && failure->function == function && failure->call == call) return {};
  return call;
}

std::int64_t Machine::calls_of(const std::string& function) const {
  const auto found = calls_.find(function);
  return found == calls_.end() ? 0 : found->second;
}

void* Machine::allocate(std::size_t bytes, std::optional<int> device) {
  if (!device) return memory_.allocate(bytes, {});
  Device& owner = this->device(*device);
  if (bytes > options_.memory - owner.used) return nullptr;
  void* const made = memory_.allocate(bytes, device);
  if (made != nullptr) owner.peak = std::max(owner.peak, owner.used += bytes);
  return made;
}

void Machine::release(void* memory) {
  const Allocation& freed = *memory_.find(memory, 0);
  if (freed.device) device(*freed.device).used -= freed.bytes;
  memory_.release(memory);
}

bool Machine::check_range(const std::string& what, const void* start, std::size_t bytes,
                          int device) {
  const Allocation* const found = memory_.find(start, bytes);
  if (found != nullptr && found->device == device) return true;
  const std::string range = what + ": " + std::to_string(bytes) + " bytes ";
  if (found != nullptr && found->device) {
    add_fault(range + "of device " + std::to_string(*found->device) + ", not of device " +
              std::to_string(device));
  } else if (found != nullptr) {
    add_fault(range + "of the host, not of device " + std::to_string(device));
  } else {
    add_fault(range + (memory_.was_freed(start) ? "in memory that was freed"
                                                : "that are not in one allocation"));
  }
  return false;
}

std::shared_ptr<Stream> Machine::add_stream(int device) {
  auto made = std::make_shared<Stream>();
  made->device = device;
  made->number = this->device(device).streams++;
  streams_.push_back(made);
  return made;
}

Stream* Machine::stream(const void* handle, int current) const {
  if (handle == nullptr) return defaults_[static_cast<std::size_t>(current)].get();
  for (const auto& stream : streams_) {
    if (stream.get() == handle && !stream->destroyed) return stream.get();
  }
  return nullptr;
}

std::shared_ptr<Event> Machine::add_event(int device, bool timed) {
  auto made = std::make_shared<Event>();
  made->device = device;
  made->timed = timed;
  events_.emplace(made.get(), made);
  return made;
}

std::shared_ptr<Event> Machine::event(const void* handle) const {
  const auto found = events_.find(handle);
  return found == events_.end() ? nullptr : found->second;
}

void Machine::put(Stream& stream, Operation operation) {
  if (stream.capture) return add_node(stream, [operation] { return operation; });
  stream.queue.push_back(std::move(operation));
  moved();
}

void Machine::leave_out(const Stream& stream, const std::shared_ptr<Event>& event) {
  left_out_ = LeftOut{&stream, event, event->recorded, stream.queue.size()};
}

void Machine::moved() {
  ++moves_;
  last_move_s_ = now_s();
  changed_.notify_all();
}

void Machine::add_fault(const std::string& text) { faults_.push_back(text); }

void Machine::fail(int device, const std::string& text) {
  if (!this->device(device).failure) this->device(device).failure = text;
  add_fault("device " + std::to_string(device) + ": " + text);
  moved();
}

std::vector<Stream*> Machine::ready_streams(int device) const {
  std::vector<Stream*> ready;
  if (devices_[static_cast<std::size_t>(device)].failure) return ready;
  for (const auto& stream : streams_) {
    if (stream->device != device || stream->queue.empty()) continue;
    const Operation& head = stream->queue.front();
    if (options_.one_at_a_time && head.started && head.is_transfer) {
      return head.over() ? std::vector{stream.get()} : std::vector<Stream*>{};
    }
    const bool waits = head.started || !head.start;
    if (!waits || head.over()) ready.push_back(stream.get());
  }
  if (left_out_ && left_out_->is_open() && ready.size() > 1) {
    std::erase(ready, left_out_->event->stream);
  }
  return ready;
}

// Kernels that wait for other devices must all find room at once: nobody says which comes first.
void Machine::check_room(const Stream& stream) {
  int blocks = stream.queue.front().blocks;
  for (const auto& other : streams_) {
    if (other->device != stream.device || other->queue.empty()) continue;
    const Operation& head = other->queue.front();
    if (other.get() != &stream && head.is_transfer && head.started) blocks += head.blocks;
  }
  if (blocks <= kMultiprocessors) return;
  add_fault("device " + std::to_string(stream.device) + ": transfers that run at once have " +
            std::to_string(blocks) + " blocks, and there are fewer multiprocessors");
}

void Machine::run_head(Stream& stream) {
  Operation& head = stream.queue.front();
  memory_.open_only(stream.device);
  if (!head.started && head.start) {
    head.started = true;
    if (left_out_ && &stream == left_out_->stream && left_out_->before == 0 && !head.recorded) {
      left_out_->overtaken = left_out_->overtaken || left_out_->is_open();
    }
    if (head.is_transfer) check_room(stream);
    head.start();
  }
  if (!head.over || head.over()) {
    if (left_out_ && &stream == left_out_->stream && left_out_->before > 0) --left_out_->before;
    stream.queue.pop_front();
  }
  moved();
}

// One stream runs on for a while more often than all do in turn: that is how a stream comes to be
// far ahead of another.
bool Machine::run_one(int device) {
  const auto ready = ready_streams(device);
  if (ready.empty()) return false;
  Stream*& favourite = this->device(device).favourite;
  const bool stays = std::find(ready.begin(), ready.end(), favourite) != ready.end();
  if (!stays || draw() % 8 == 0) favourite = ready[draw() % ready.size()];
  run_head(*favourite);
  return true;
}

// Only what the stream's first operation needs.
bool Machine::run_needed(Stream* stream) {
  constexpr int kFarthest = 64;
  for (int i = 0; stream != nullptr && !stream->queue.empty() && i < kFarthest; ++i) {
    const auto ready = ready_streams(stream->device);
    if (std::find(ready.begin(), ready.end(), stream) != ready.end()) {
      run_head(*stream);
      return true;
    }
    const auto& awaited = stream->queue.front().awaited;
    stream = awaited ? awaited->stream : nullptr;
  }
  return false;
}

bool Machine::run_until(Lock& lock, int device, Stream* stream,
                        const std::function<bool()>& reached) {
  const bool no_more_than_needed = draw() % 2 == 0 && !left_out_;
  bool well = true;
  while (well && !reached()) {
    if (this->device(device).failure) {
      well = false;
    } else if (no_more_than_needed && run_needed(stream)) {
      continue;
    } else if (!run_one(device)) {
      // The other devices run on their own, whatever their hosts wait for.
      bool any = false;
      for (int i = 0; i < options_.devices; ++i) any = any || (i != device && run_one(i));
      well = any || wait_for_others(lock, device);
    }
  }
  memory_.close();
  return well && !this->device(device).failure;
}

bool Machine::wait_for_others(Lock& lock, int device) {
  memory_.close();
  const std::uint64_t before = moves_;
  const auto patience = std::chrono::duration<double>(options_.patience_s);
  if (changed_.wait_for(lock, patience, [&] { return moves_ != before; })) return true;
  declare_deadlock(device);
  return false;
}

void Machine::declare_deadlock(int device) {
  const std::string text = "deadlock: " + standing_text();
  for (int i = 0; i < options_.devices; ++i) {
    const bool stands = std::any_of(streams_.begin(), streams_.end(), [&](const auto& stream) {
      return stream->device == i && !stream->queue.empty();
    });
    if (stands || i == device) fail(i, text);
  }
}

std::string Machine::standing_text() const {
  std::string text;
  for (const auto& stream : streams_) {
    if (stream->queue.empty()) continue;
    text += (text.empty() ? "" : "; ") + std::string("device ") + std::to_string(stream->device) +
            " stream " + std::to_string(stream->number) + " stands at " +
            stream->queue.front().name;
  }
  return text.empty() ? "nothing is queued" : text;
}

bool Machine::run_device(Lock& lock, int device) {
  const auto idle = [&] {
    return std::none_of(streams_.begin(), streams_.end(), [&](const auto& stream) {
      return stream->device == device && !stream->queue.empty();
    });
  };
  return run_until(lock, device, nullptr, idle);
}

void Machine::poll(Lock& lock, int device) {
  bool any = false;
  for (std::uint64_t count = 1 + draw() % 32; count > 0 && run_one(device); --count) any = true;
  for (int i = 0; i < options_.devices; ++i) any = any || run_one(i);
  memory_.close();
  if (any || this->device(device).failure) return;
  if (now_s() - last_move_s_ > options_.patience_s) return declare_deadlock(device);
  // Others shall come to their turn.
  lock.unlock();
  std::this_thread::sleep_for(std::chrono::microseconds(100));
  lock.lock();
}

void Machine::run_some(int device) {
  if (draw() % 4 != 0 || this->device(device).failure) return;
  for (std::uint64_t count = draw() % 8; count > 0 && run_one(device); --count) {
  }
  memory_.close();
}

}  // namespace meshwright::standin
