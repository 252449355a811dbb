#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>

// Every call into CUDA's libraries is checked. What is wrong with the machine (no driver, no
// device, a library that does not go with the driver) is an EnvironmentError, everything else a
// DeviceError; both name the call and say what the library says.
namespace meshwright::cuda {

void check(cudaError_t status, const char* call);
void check(cublasStatus_t status, const char* call);
void check(ncclResult_t status, const char* call);

// What a question about a stream or an event was answered: whether all of it is done.
bool is_done(cudaError_t state, const char* call);
// Whether the program that asks is of this library's version; EnvironmentError: it is not.
void check_version(const std::string& program);

}  // namespace meshwright::cuda
