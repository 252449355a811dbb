#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "costmodel/kernel/host_copy.h"
#include "costmodel/profile/kernel_shape.h"
#include "costmodel/profile/profile.h"

namespace meshwright {

struct KernelItem {
  ShapedKernel shaped;
  Precision precision = Precision::FP32;
  friend bool operator==(const KernelItem&, const KernelItem&) = default;
};
// Among devices 0 to `devices` - 1.
struct TransferItem {
  TransferKind kind = TransferKind::AllReduce;
  std::int64_t devices = 2;
  Bytes bytes;
  friend bool operator==(const TransferItem&, const TransferItem&) = default;
};
struct LinkItem {
  std::int64_t a = 0, b = 1;
  friend bool operator==(const LinkItem&, const LinkItem&) = default;
};
// Between device 0 and its host; no direction: within the device's memory.
struct CopyItem {
  std::optional<CopyDirection> direction;
  friend bool operator==(const CopyItem&, const CopyItem&) = default;
};

// One thing to measure.
using BenchmarkItem = std::variant<KernelItem, TransferItem, LinkItem, CopyItem>;
std::string to_text(const BenchmarkItem& item);

// How large the sizes are: a core trains models of a million parameters, a GPU of billions.
enum class BenchmarkSizes { Core, Gpu };

// How much there is to measure.
struct BenchmarkScope {
  bool quick = false;  // fewer sizes
  BenchmarkSizes sizes = BenchmarkSizes::Core;
  std::int64_t devices = 1;
  std::vector<Precision> precisions = {Precision::FP32};
};

// Every kernel that lowering emits over the shapes that training meets, every transfer over 2 to n
// devices, every pair of devices, copies: grids, so that everything between their sizes can be
// interpolated. What is most needed comes first.
std::vector<BenchmarkItem> benchmark_items(const BenchmarkScope& scope);

}  // namespace meshwright
