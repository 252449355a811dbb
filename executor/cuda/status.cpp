#include "executor/cuda/status.h"

#include <string>

#include "executor/device_error.h"
#include "executor/environment_error.h"

namespace meshwright::cuda {
namespace {

bool is_of_the_machine(cudaError_t status) {
  switch (status) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorStubLibrary:
      return true;
    default:
      return false;
  }
}

std::string message_of(const char* call, const char* text) {
  return std::string("CUDA: ") + call + ": " + text;
}

}  // namespace

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  const std::string message = message_of(call, cudaGetErrorString(status));
  if (is_of_the_machine(status)) throw EnvironmentError(message);
  throw DeviceError(message);
}

// That something is not done yet is kept as an error for the next launch to find, unless it is
// taken away.
bool is_done(cudaError_t state, const char* call) {
  if (state != cudaErrorNotReady)
    check(state, call);
  else
    cudaGetLastError();
  return state == cudaSuccess;
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string message = message_of(call, cublasLtGetStatusString(status));
  if (status == CUBLAS_STATUS_NOT_INITIALIZED || status == CUBLAS_STATUS_ARCH_MISMATCH) {
    throw EnvironmentError(message);
  }
  throw DeviceError(message);
}

void check(ncclResult_t status, const char* call) {
  if (status == ncclSuccess) return;
  throw DeviceError(message_of(call, ncclGetErrorString(status)) + ": " +
                    ncclGetLastError(nullptr));
}

void check_version(const std::string& program) {
  if (program == MESHWRIGHT_VERSION) return;
  throw EnvironmentError(
      "CUDA: the library is of version " MESHWRIGHT_VERSION ", the program of version " + program);
}

}  // namespace meshwright::cuda
