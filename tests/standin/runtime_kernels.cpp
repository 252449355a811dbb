#include <cxxabi.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "tests/standin/runtime.h"

// Kernels of a library that NVIDIA's compiler has made: it tells the runtime which there are, and
// calls it for each launch (crt/host_runtime.h, crt/device_functions.h). What runs is the kernel of
// the same name that was compiled for the processor.
namespace meshwright::standin {
namespace {

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

// Of "Emulated<&(void run(long))>" what is between the parentheses.
std::string argument_of(const std::string& type) {
  const auto first = type.find("<&(") + 3;
  return type.substr(first, type.rfind(")>") - first);
}

std::map<std::string, const EmulatedKernel*>& emulated_kernels() {
  static std::map<std::string, const EmulatedKernel*> by_name;
  return by_name;
}
// By the function that stands for the kernel in the library.
std::map<const void*, std::string>& compiled_kernels() {
  static std::map<const void*, std::string> names;
  return names;
}

struct LaunchShape {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};
LaunchShape& shape_of_next() {
  thread_local LaunchShape shape;
  return shape;
}

}  // namespace

EmulatedKernel::EmulatedKernel(const char* type, Bind bind)
    : name_(argument_of(demangled(type))), bind_(bind) {
  emulated_kernels()[name_] = this;
}

}  // namespace meshwright::standin

using namespace meshwright::standin;

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}

void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  compiled_kernels()[host_function] = demangled(name);
}

unsigned __cudaPushCallConfiguration(dim3 blocks, dim3 threads, std::size_t shared_bytes,
                                     CUstream_st* stream) {
  Machine& machine = Machine::the();
  const Lock lock = machine.lock();
  machine.begins("__cudaPushCallConfiguration");  // it is counted
  shape_of_next() = {blocks, threads, shared_bytes, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* blocks, dim3* threads, std::size_t* shared_bytes,
                                       void* stream) {
  const LaunchShape& shape = shape_of_next();
  *blocks = shape.blocks;
  *threads = shape.threads;
  *shared_bytes = shape.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = shape.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_function) {
  const auto name = compiled_kernels().find(host_function);
  const auto& emulated = emulated_kernels();
  const auto found =
      name == compiled_kernels().end() ? emulated.end() : emulated.find(name->second);
  if (found == emulated.end()) return note_error(cudaErrorInvalidDeviceFunction);
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<EmulatedKernel*>(found->second));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 blocks, dim3 threads, void** parameters,
                               std::size_t, cudaStream_t stream) {
  if (kernel == nullptr) return note_error(cudaErrorInvalidDeviceFunction);
  const auto& emulated = *reinterpret_cast<const EmulatedKernel*>(kernel);
  launch_blocks(emulated.name(), blocks.x, threads.x, stream, emulated.thread(parameters));
  return cudaPeekAtLastError();
}

}  // extern "C"
