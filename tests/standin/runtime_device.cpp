#include <cstring>
#include <map>

#include "tests/standin/runtime.h"

namespace meshwright::standin {

int& current_device() {
  thread_local int device = 0;
  return device;
}

namespace {

cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

}  // namespace

cudaError_t note_error(cudaError_t error) {
  if (error != cudaSuccess) last_error() = error;
  return error;
}

}  // namespace meshwright::standin

using namespace meshwright::standin;

cudaError_t cudaGetDeviceCount(int* count) {
  Machine& machine = Machine::the();
  const Lock lock = machine.lock();
  *count = machine.options().devices;
  return *count == 0 ? note_error(cudaErrorNoDevice) : cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  Machine& machine = Machine::the();
  const Lock lock = machine.lock();
  if (!machine.begins("cudaSetDevice")) return note_error(cudaErrorDevicesUnavailable);
  if (!machine.has_device(device)) return note_error(cudaErrorInvalidDevice);
  current_device() = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  Machine& machine = Machine::the();
  const Lock lock = machine.lock();
  if (!machine.has_device(device)) return note_error(cudaErrorInvalidDevice);
  std::memset(properties, 0, sizeof(*properties));
  std::strcpy(properties->name, "Stand-in");
  properties->major = 8;
  properties->minor = 0;
  properties->totalGlobalMem = machine.options().memory;
  properties->multiProcessorCount = kMultiprocessors;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->sharedMemPerBlock = 48 << 10;
  properties->asyncEngineCount = 2;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const std::map<int, int> known = {{cudaDevAttrComputeCapabilityMajor, 8},
                                    {cudaDevAttrComputeCapabilityMinor, 0},
                                    {cudaDevAttrMultiProcessorCount, kMultiprocessors},
                                    {cudaDevAttrMaxThreadsPerBlock, 1024},
                                    {cudaDevAttrMaxSharedMemoryPerBlock, 48 << 10}};
  return runtime_call("cudaDeviceGetAttribute", cudaErrorInvalidValue,
                      [&](Machine& machine, Lock&) {
                        if (!machine.has_device(device)) return cudaErrorInvalidDevice;
                        const auto found = known.find(attribute);
                        if (found == known.end()) return cudaErrorInvalidValue;
                        *value = found->second;
                        return cudaSuccess;
                      });
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  return runtime_call(
      "cudaDeviceSynchronize", cudaErrorIllegalAddress, [](Machine& machine, Lock& lock) {
        return machine.run_device(lock, current_device()) ? cudaSuccess : cudaErrorLaunchTimeout;
      });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error();
  last_error() = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error(); }

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchOutOfResources:
      return "too many resources requested for launch";
    case cudaErrorLaunchTimeout:
      return "the launch timed out and was terminated";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorNotReady:
      return "device not ready";
    default:
      return "unspecified launch failure";
  }
}
const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }
