#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace meshwright::standin {

// A function with a stack of its own, which runs until it gives way and then goes on from there.
// At most one of all fibers runs at a time, whatever the thread.
class Fiber {
 public:
  explicit Fiber(std::function<void()> run);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs it, and whoever it gives way to, until one leaves. The function must not return before the
  // fiber is destroyed; one that never goes on is dropped as it stands.
  void resume();
  // Called in the fiber: another one goes on instead.
  void give_way_to(Fiber& other);
  // Called in the fiber: back to where the first one was resumed.
  void leave();

  struct Stack;

 private:
  std::function<void()> run_;
  std::unique_ptr<Stack> stack_;
};

}  // namespace meshwright::standin
