#pragma once

#include <memory>
#include <vector>

#include "executor/cuda/device_memory.h"
#include "executor/transfer_space.h"

namespace meshwright::cuda {

// What a device sends another, in the order in which it is given: from copies that take turns
// (transfer_space.h), in a stream of its own.
class SendQueue {
 public:
  // In memory that the space says; it must outlive the queue.
  SendQueue(std::byte* memory, const SendSpace& space);

  // Where `lane` is to copy the next one to: the lane goes on when what was there has been sent.
  std::byte* take(cudaStream_t lane);
  // It is there when the lane has come so far; sends of it go into the stream that is returned.
  cudaStream_t hand_over(cudaStream_t lane);
  // All sends of it were given.
  void give();
  // All were sent, and nobody need wait for that.
  void forget();
  cudaStream_t stream() const { return stream_.get(); }

 private:
  struct Copy {
    std::byte* memory = nullptr;
    Event there, sent;
    bool on_its_way = false;
  };
  Stream stream_;
  std::vector<std::unique_ptr<Copy>> copies_;
  std::size_t next_ = 0;
};

}  // namespace meshwright::cuda
