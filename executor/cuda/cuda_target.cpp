#include "executor/cuda/cuda_target.h"

#include <algorithm>

#include "executor/cuda/device_name.h"
#include "executor/cuda/kernel_bench.h"
#include "executor/environment_error.h"

namespace meshwright::cuda {
namespace {

std::string version_text(int version, int major_step, int minor_step) {
  return std::to_string(version / major_step) + "." +
         std::to_string(version % major_step / minor_step);
}

std::string software_of(const std::string& version, const std::string& attention) {
  int driver = 0, runtime = 0, nccl = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  check(ncclGetVersion(&nccl), "ncclGetVersion");
  return "meshwright " + version + ", CUDA " + version_text(runtime, 1000, 10) + ", driver for " +
         version_text(driver, 1000, 10) + ", cuBLASLt " + std::to_string(cublasLtGetVersion()) +
         ", NCCL " + version_text(nccl, 10000, 100) + "." + std::to_string(nccl % 100) +
         (attention.empty() ? "" : ", ") + attention;
}

cudaDeviceProp properties_of(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return properties;
}

std::int64_t usable_devices(const CudaRequest& request) {
  int driver = 0, found = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  if (driver == 0) throw EnvironmentError("CUDA: this machine has no NVIDIA driver");
  check(cudaGetDeviceCount(&found), "cudaGetDeviceCount");
  if (found == 0) throw EnvironmentError("CUDA: this machine has no device");
  const std::int64_t devices = request.devices.value_or(found);
  if (devices > found) {
    throw EnvironmentError("CUDA: this machine has " + std::to_string(found) +
                           " devices, asked for " + std::to_string(devices));
  }
  return devices;
}

// What is measured on one device must hold for all.
void check_alike(const cudaDeviceProp& first, std::int64_t devices) {
  for (int i = 1; i < devices; ++i) {
    const std::string name = properties_of(i).name;
    if (name == first.name) continue;
    throw EnvironmentError("CUDA: device 0 is a " + std::string(first.name) + " and device " +
                           std::to_string(i) + " a " + name +
                           "; CUDA_VISIBLE_DEVICES can choose devices of one kind");
  }
}

// By compute capability: 8.9 is 89.
bool can_compute(Precision precision, int capability) {
  switch (precision) {
    case Precision::FP64:
    case Precision::FP32:
    case Precision::FP16:
      return true;
    case Precision::TF32:
    case Precision::BF16:
      return capability >= 80;
    case Precision::FP8:
      return capability >= 89;
  }
  return false;
}

}  // namespace

CudaTarget::CudaTarget(const CudaRequest& request) {
  const std::int64_t devices = usable_devices(request);
  check(cudaSetDevice(0), "cudaSetDevice");
  const cudaDeviceProp properties = properties_of(0);
  check_alike(properties, devices);
  const std::string name = properties.name;
  capability_ = properties.major * 10 + properties.minor;
  stream_ = std::make_shared<Stream>();
  kernels_ = std::make_shared<CudaKernels>(stream_->get());
  provenance_ = {request.machine.value_or(std::to_string(devices) + " x " + name),
                 software_of(request.version, kernels_->attention_name()), "meshwright benchmark"};
  record_.device = device_type_of(name);
  record_.description = name;
  record_.devices = devices;
  record_.memory = Bytes(static_cast<std::int64_t>(properties.totalGlobalMem));
}

std::optional<Timed> CudaTarget::kernel(const Kernel& kernel, Precision precision) {
  check(cudaSetDevice(0), "cudaSetDevice");
  if (!can_compute(precision, capability_)) return {};
  // Only products are computed in these.
  const bool products_only = precision == Precision::TF32 || precision == Precision::FP8;
  if (products_only && kernel.kind != KernelKind::Matmul) return {};
  const auto bench = std::make_shared<KernelBench>(kernel, precision, kernels_);
  if (!bench->launch()) return {};
  stream_->synchronize();
  return [stream = stream_, bench](std::int64_t count) {
    return Seconds(seconds_of(*stream, count, [&](cudaStream_t) { bench->launch(); }));
  };
}

Timed CudaTarget::transfer(TransferKind kind, const std::vector<DeviceId>& group, Bytes bytes) {
  std::vector<int> devices;
  for (const DeviceId device : group) devices.push_back(static_cast<int>(device.index()));
  if (!last_group_ || last_group_->devices() != devices) {
    last_group_.reset();
    last_group_ = std::make_shared<const NcclGroup>(devices);
  }
  const auto transfer = std::make_shared<NcclTransfer>(last_group_, kind, bytes.value());
  return [transfer](std::int64_t count) { return Seconds(transfer->seconds(count)); };
}

Timed CudaTarget::copy(std::optional<CopyDirection> direction, Bytes bytes) {
  check(cudaSetDevice(0), "cudaSetDevice");
  const auto size = static_cast<std::size_t>(bytes.value());
  const auto device = std::make_shared<DeviceMemory>(size);
  std::shared_ptr<void> owner;
  void *from = device->data(), *to = nullptr;
  cudaMemcpyKind kind = cudaMemcpyDeviceToDevice;
  if (direction) {
    const auto host = std::make_shared<PinnedMemory>(size);
    to = host->data();
    owner = host;
    kind = cudaMemcpyDeviceToHost;
    if (*direction == CopyDirection::FromHost) {
      std::swap(from, to);
      kind = cudaMemcpyHostToDevice;
    }
  } else {
    const auto other = std::make_shared<DeviceMemory>(size);
    to = other->data();
    owner = other;
  }
  return [stream = stream_, device, owner, from, to, size, kind](std::int64_t count) {
    return Seconds(seconds_of(*stream, count, [&](cudaStream_t where) {
      check(cudaMemcpyAsync(to, from, size, kind, where), "cudaMemcpyAsync");
    }));
  };
}

}  // namespace meshwright::cuda

extern "C" meshwright::BenchmarkTarget* meshwright_cuda_target(
    const meshwright::CudaRequest& request) {
  meshwright::cuda::check_version(request.version);
  return std::make_unique<meshwright::cuda::CudaTarget>(request).release();
}
