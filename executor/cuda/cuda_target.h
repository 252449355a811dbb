#pragma once

#include "executor/benchmark/target.h"
#include "executor/cuda/cuda_kernels.h"
#include "executor/cuda/cuda_library.h"
#include "executor/cuda/nccl_group.h"

namespace meshwright::cuda {

// The GPUs of this machine with the kernels that training has, and transfers by NCCL. Kernels are
// timed by events in their stream, one after the other without a pause, so what is shorter than the
// host takes for a launch reads as that.
class CudaTarget : public BenchmarkTarget {
 public:
  explicit CudaTarget(const CudaRequest& request);

  Provenance provenance() const override { return provenance_; }
  DeviceRecord device() const override { return record_; }
  std::optional<Timed> kernel(const Kernel& kernel, Precision precision) override;
  Timed transfer(TransferKind kind, const std::vector<DeviceId>& group, Bytes bytes) override;
  Timed copy(std::optional<CopyDirection> direction, Bytes bytes) override;

 private:
  Provenance provenance_;
  DeviceRecord record_;
  int capability_ = 0;
  std::shared_ptr<Stream> stream_;  // of device 0
  std::shared_ptr<CudaKernels> kernels_;
  std::shared_ptr<const NcclGroup> last_group_;  // making one takes about a second
};

}  // namespace meshwright::cuda
