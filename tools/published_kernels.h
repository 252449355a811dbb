#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "costmodel/base/csv_input.h"
#include "costmodel/kernel/transfer.h"
#include "costmodel/price/kernel_cost.h"

namespace meshwright {

// Rows of data/published/kernels.csv and collectives.csv as the cost model sees them.
struct MeasuredGemm {
  std::string source, gpu;
  Precision precision = Precision::BF16;
  GemmShape shape;
  Seconds time;
};

enum class AttentionPass { Forward, Backward, Both };
struct MeasuredAttention {
  std::string source, gpu;
  AttentionKernel kernel = AttentionKernel::Flash2;
  AttentionPass pass = AttentionPass::Forward;
  AttentionShape shape;
  Seconds time;
};

struct MeasuredTransfer {
  std::string source, gpu;
  TransferKind kind = TransferKind::AllReduce;
  std::int64_t nodes = 1, devices = 1;
  Bytes size;
  Seconds time;
};

struct PublishedKernels {
  std::vector<MeasuredGemm> gemms;
  std::vector<MeasuredAttention> attentions;
};
PublishedKernels read_published_kernels(const std::filesystem::path& file);
std::vector<MeasuredTransfer> read_published_transfers(const std::filesystem::path& file);

}  // namespace meshwright
