#include "tests/standin/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace meshwright::standin {
namespace {

// A kernel's thread has few and small variables; the sanitizer makes frames many times as large.
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kStackBytes = 256 << 10;
#else
constexpr std::size_t kStackBytes = 64 << 10;
#endif

}  // namespace

#ifdef __x86_64__
// Saves what a function must keep on the stack that it leaves, and takes it from the one it goes
// to.
extern "C" void meshwright_switch_stack(void** left, void* entered);
asm(R"(
.text
.type meshwright_switch_stack, @function
meshwright_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size meshwright_switch_stack, .-meshwright_switch_stack
)");
#endif

struct Fiber::Stack {
  Stack() {
    memory = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
  }
  ~Stack() { ::munmap(memory, kStackBytes); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  void* memory;
  const std::function<void()>* run = nullptr;
#ifdef __x86_64__
  void *inside = nullptr, *outside = nullptr;
#else
  ucontext_t inside{}, outside{};
#endif
  // What the address sanitizer is told about the stacks that are left and entered.
  void *inside_fake = nullptr, *outside_fake = nullptr;
  const void* outside_bottom = nullptr;
  std::size_t outside_bytes = 0;
};

namespace {

thread_local Fiber::Stack* entered = nullptr;  // the first time

void finish_switch([[maybe_unused]] void* fake, [[maybe_unused]] const void** bottom,
                   [[maybe_unused]] std::size_t* bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake, bottom, bytes);
#endif
}
void start_switch([[maybe_unused]] void** fake, [[maybe_unused]] const void* bottom,
                  [[maybe_unused]] std::size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(fake, bottom, bytes);
#endif
}

void begin() {
  Fiber::Stack& stack = *entered;
  finish_switch(nullptr, &stack.outside_bottom, &stack.outside_bytes);
  (*stack.run)();
  __builtin_unreachable();
}

}  // namespace

Fiber::Fiber(std::function<void()> run) : run_(std::move(run)), stack_(std::make_unique<Stack>()) {
  stack_->run = &run_;
#ifdef __x86_64__
  // As if `begin` had been called and had left: a return address, and six saved registers. At a
  // function's start the stack is 8 bytes off a multiple of 16.
  auto* top = static_cast<std::uint64_t*>(stack_->memory) + kStackBytes / 8 - 1;
  *--top = reinterpret_cast<std::uint64_t>(&begin);
  for (int i = 0; i < 6; ++i) *--top = 0;
  stack_->inside = top;
#else
  ::getcontext(&stack_->inside);
  stack_->inside.uc_stack.ss_sp = stack_->memory;
  stack_->inside.uc_stack.ss_size = kStackBytes;
  ::makecontext(&stack_->inside, &begin, 0);
#endif
}

Fiber::~Fiber() = default;

void Fiber::resume() {
  Stack& stack = *stack_;
  entered = &stack;
  start_switch(&stack.outside_fake, stack.memory, kStackBytes);
#ifdef __x86_64__
  meshwright_switch_stack(&stack.outside, stack.inside);
#else
  ::swapcontext(&stack.outside, &stack.inside);
#endif
  finish_switch(stack.outside_fake, nullptr, nullptr);
}

void Fiber::give_way() {
  Stack& stack = *stack_;
  start_switch(&stack.inside_fake, stack.outside_bottom, stack.outside_bytes);
#ifdef __x86_64__
  meshwright_switch_stack(&stack.inside, stack.outside);
#else
  ::swapcontext(&stack.inside, &stack.outside);
#endif
  finish_switch(stack.inside_fake, &stack.outside_bottom, &stack.outside_bytes);
}

}  // namespace meshwright::standin
