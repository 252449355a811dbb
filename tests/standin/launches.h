#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>

namespace meshwright::standin {

// A kernel that can be run on the processor, known to all by its name.
class EmulatedKernel {
 public:
  // One thread's work, from where the kernel's parameters are.
  using Bind = std::function<void()> (*)(void** parameters);
  // By the name of a type that has the kernel as its only argument.
  EmulatedKernel(const char* type, Bind bind);
  EmulatedKernel(const EmulatedKernel&) = delete;
  EmulatedKernel& operator=(const EmulatedKernel&) = delete;

  // As it is declared, with what its parameters are: "void run_rows<Fill<float> >(long, ...)".
  const char* name() const { return name_.c_str(); }
  std::function<void()> thread(void** parameters) const { return bind_(parameters); }

 private:
  std::string name_;
  Bind bind_;
};

// A kernel in a stream, of which every thread calls `thread`. What is wrong with it is
// cudaGetLastError's to say.
void launch_blocks(const char* name, unsigned blocks, unsigned threads, cudaStream_t stream,
                   std::function<void()> thread);

}  // namespace meshwright::standin
