#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace meshwright::standin {

// A function with a stack of its own, which runs until it gives way and then goes on from there.
// Whoever resumes one is its resumer; fibers do not resume each other.
class Fiber {
 public:
  explicit Fiber(std::function<void()> run);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs it until it gives way. The function must not return before the fiber is destroyed; one
  // that is never resumed again is dropped as it stands.
  void resume();
  // Called in the fiber: back to where it was resumed.
  void give_way();

  struct Stack;

 private:
  std::function<void()> run_;
  std::unique_ptr<Stack> stack_;
};

}  // namespace meshwright::standin
