#include "tests/standin/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
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
// The lanes of a warp take turns all the time. With stacks that begin at equal places of equally
// aligned pages they would push each other out of the processor's caches.
constexpr std::size_t kPage = 4096, kPlaces = 16;

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

// A stack that is not running, and where it goes on.
struct Fiber::Stack {
  const std::function<void()>* run = nullptr;  // none: the stack of whoever resumes fibers
#ifdef __x86_64__
  void* top = nullptr;
#else
  ucontext_t context{};
#endif
  // What the address sanitizer is told.
  void* fake = nullptr;
  const void* bottom = nullptr;
  std::size_t bytes = 0;
};

namespace {

Fiber::Stack outside;
Fiber::Stack *left = nullptr, *entered = nullptr;  // last

void arrive([[maybe_unused]] void* fake) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake, &left->bottom, &left->bytes);
#endif
}

void go(Fiber::Stack& from, Fiber::Stack& to) {
  left = &from;
  entered = &to;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&from.fake, to.bottom, to.bytes);
#endif
#ifdef __x86_64__
  meshwright_switch_stack(&from.top, to.top);
#else
  ::swapcontext(&from.context, &to.context);
#endif
  arrive(from.fake);
}

void begin() {
  arrive(nullptr);
  (*entered->run)();
  __builtin_unreachable();
}

}  // namespace

Fiber::Fiber(std::function<void()> run) : run_(std::move(run)), stack_(std::make_unique<Stack>()) {
  static std::size_t made = 0;
  const std::size_t number = made++;
  stack_->run = &run_;
  stack_->bytes = kStackBytes + number % 2 * kPage;
  void* const memory = ::mmap(nullptr, stack_->bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  stack_->bottom = memory;
  const std::size_t used = stack_->bytes - number % kPlaces * (kPage / kPlaces);
#ifdef __x86_64__
  // As if `begin` had been called and had left: a return address, and six saved registers. At a
  // function's start the stack is 8 bytes off a multiple of 16.
  auto* top = static_cast<std::uint64_t*>(memory) + used / 8 - 1;
  *--top = reinterpret_cast<std::uint64_t>(&begin);
  for (int i = 0; i < 6; ++i) *--top = 0;
  stack_->top = top;
#else
  ::getcontext(&stack_->context);
  stack_->context.uc_stack.ss_sp = memory;
  stack_->context.uc_stack.ss_size = used;
  ::makecontext(&stack_->context, &begin, 0);
#endif
}

Fiber::~Fiber() {
#ifdef __SANITIZE_ADDRESS__
  // What was called in it never returned, and the next who is given these addresses is not it.
  __asan_unpoison_memory_region(stack_->bottom, stack_->bytes);
#endif
  ::munmap(const_cast<void*>(stack_->bottom), stack_->bytes);
}

void Fiber::resume() { go(outside, *stack_); }
void Fiber::give_way_to(Fiber& other) { go(*stack_, *other.stack_); }
void Fiber::leave() { go(*stack_, outside); }

}  // namespace meshwright::standin
