#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

// Every call into CUDA's libraries is checked. What is wrong with the machine (no driver, no
// device, a library that does not go with the driver) is an EnvironmentError, everything else a
// DeviceError; both name the call and say what the library says.
namespace meshwright::cuda {

void check(cudaError_t status, const char* call);
void check(cublasStatus_t status, const char* call);
void check(ncclResult_t status, const char* call);

}  // namespace meshwright::cuda
