#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "executor/cuda/device_memory.h"

namespace meshwright::cuda {

// Memory of the host through which bytes go to a device: each piece is taken until all are given
// back together, when nothing is under way any more.
class HostStaging {
 public:
  static constexpr std::size_t kMost = std::size_t{8} << 20;  // of a piece

  // At most kMost bytes.
  std::byte* take(std::size_t bytes) {
    if (chunk_ < chunks_.size() && used_ + bytes > kMost) {
      ++chunk_;
      used_ = 0;
    }
    if (chunk_ == chunks_.size()) chunks_.push_back(std::make_unique<PinnedMemory>(kMost));
    std::byte* const piece = static_cast<std::byte*>(chunks_[chunk_]->data()) + used_;
    used_ += (bytes + kUnit - 1) / kUnit * kUnit;
    used_ = std::min(used_, kMost);
    return piece;
  }
  // Many pieces are out: time to wait for them.
  bool is_large() const { return chunk_ >= 8; }
  void give_back() { chunk_ = used_ = 0; }

 private:
  static constexpr std::size_t kUnit = 64;
  std::vector<std::unique_ptr<PinnedMemory>> chunks_;
  std::size_t chunk_ = 0, used_ = 0;
};

}  // namespace meshwright::cuda
