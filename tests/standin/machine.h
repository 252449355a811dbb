#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/standin/guarded_memory.h"
#include "tests/standin/standin.h"

// The devices behind the stand-in's libraries: memory, streams and events.
namespace meshwright::standin {

struct Stream;

// What is given to streams while they are captured. A node makes an operation whenever a graph is
// launched, which runs after those of other nodes.
struct Capture {
  struct Node {
    std::function<struct Operation()> make;
    std::vector<std::size_t> after;
    const Stream* stream = nullptr;  // that it was given to
  };
  Stream* origin = nullptr;
  std::vector<Node> nodes;
};

struct Event {
  int device = 0;
  bool timed = true;
  std::int64_t recorded = 0, reached = 0;  // how often
  double time_s = 0;                       // when it was reached last
  Stream* stream = nullptr;                // that it was recorded in last
  // In a capture: it stands for these nodes, and cannot be asked for.
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> nodes;
};

// Runs in its turn. `start` once, at the earliest when it is the first of its stream; it is over
// when `over` says so, or at once if there is none.
struct Operation {
  std::string name;
  std::function<void()> start;
  std::function<bool()> over;
  std::shared_ptr<Event> awaited = nullptr, recorded = nullptr;
  bool is_transfer = false;
  int blocks = 0;  // of a transfer: multiprocessors that it keeps while it waits for others
  bool started = false;
};

struct Stream {
  int device = 0;
  int number = 0;
  bool destroyed = false;  // by its owner; what is in it still runs
  std::deque<Operation> queue;
  std::shared_ptr<Capture> capture;  // that it belongs to
  std::vector<std::size_t> last;     // nodes that the next one comes after
};

// A graph that can be launched: streams of its own, which are given its nodes.
struct Graph {
  std::vector<Capture::Node> nodes;
  std::map<const Stream*, std::shared_ptr<Stream>> streams;  // by those that were captured
};

inline constexpr int kMultiprocessors = 108;  // of a device, as many as an A100 has

struct Device {
  std::size_t used = 0, peak = 0;
  int streams = 0;
  std::optional<std::string> failure;  // nothing works any more, as after a fault in a kernel
  Stream* favourite = nullptr;         // that runs on while it can
};

using Lock = std::unique_lock<std::mutex>;

class Machine {
 public:
  static Machine& the();

  void restart(const Options& options);
  Lock lock() { return Lock(mutex_); }

  // What follows needs the lock.

  // A call of a function, and the how many-th it is; none: it has to fail because a test wants it.
  std::optional<std::int64_t> begins(const std::string& function);
  const Options& options() const { return options_; }
  Device& device(int number) { return devices_[static_cast<std::size_t>(number)]; }
  bool has_device(int number) const {
    return number >= 0 && number < static_cast<int>(devices_.size());
  }
  void* allocate(std::size_t bytes, std::optional<int> device);  // null: there is no room
  void release(void* memory);
  const GuardedMemory& memory() const { return memory_; }
  void open(int device) { memory_.open(device); }  // for an operation that runs on another one
  // Whether a range is in memory of that device; a fault if not.
  bool check_range(const std::string& what, const void* start, std::size_t bytes, int device);

  std::shared_ptr<Stream> add_stream(int device);
  Stream* stream(const void* handle, int current) const;  // null: there is none such
  std::shared_ptr<Event> add_event(int device, bool timed);
  std::shared_ptr<Event> event(const void* handle) const;
  void remove_event(const void* handle) { events_.erase(handle); }

  void put(Stream& stream, Operation operation);
  // The next node of a stream that is captured.
  void add_node(Stream& stream, std::function<Operation()> make);
  // Ends the capture of a stream's; none: its streams were not all joined.
  std::optional<std::vector<Capture::Node>> end_capture(Stream& origin);
  std::shared_ptr<Graph> make_graph(std::vector<Capture::Node> nodes, int device);
  void put_graph(Stream& stream, const std::shared_ptr<Graph>& graph);
  void remove_graph(const Graph& graph);
  // A wait of `stream` that a test leaves out: whoever was to be waited for comes as late as it
  // can.
  void leave_out(const Stream& stream, const std::shared_ptr<Event>& event);
  bool was_overtaken() const { return left_out_ && left_out_->overtaken; }
  // Runs what is queued until `reached`. False: the device has failed, or nothing moves any more.
  bool run_until(Lock& lock, int device, Stream* stream, const std::function<bool()>& reached);
  bool run_device(Lock& lock, int device);  // all its streams
  void run_some(int device);                // as a device may while its host does something else
  void poll(Lock& lock, int device);        // while its host asks again and again
  void moved();                             // somebody may be able to go on
  void add_fault(const std::string& text);
  void fail(int device, const std::string& text);
  std::uint64_t draw() { return random_(); }
  double now_s() const;

  std::vector<std::string> faults() const { return faults_; }
  std::int64_t calls_of(const std::string& function) const;

 private:
  Machine();
  std::vector<Stream*> ready_streams(int device) const;
  void run_head(Stream& stream);
  void check_room(const Stream& stream);
  bool run_one(int device);
  bool run_needed(Stream* stream);
  bool wait_for_others(Lock& lock, int device);
  void declare_deadlock(int device);
  std::string standing_text() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  Options options_;
  std::mt19937_64 random_;
  std::vector<Device> devices_;
  GuardedMemory memory_;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::vector<std::shared_ptr<Stream>> defaults_;  // of each device, the stream without a name
  std::map<const void*, std::shared_ptr<Event>> events_;
  std::map<std::string, std::int64_t> calls_;
  std::vector<std::string> faults_;
  struct LeftOut {
    const Stream* stream = nullptr;
    std::shared_ptr<Event> event;
    std::int64_t time = 0;
    std::size_t before = 0;  // operations of the stream that were to run before the wait
    bool overtaken = false;  // work of the stream ran before what the event stands for
    // Not when all that is left is to record it.
    bool is_open() const {
      if (event->reached >= time) return false;
      const auto& queue = event->stream->queue;
      return queue.empty() || queue.front().recorded != event;
    }
  };
  std::optional<LeftOut> left_out_;
  std::uint64_t moves_ = 0;
  double last_move_s_ = 0;
};

}  // namespace meshwright::standin
