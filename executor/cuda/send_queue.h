#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "executor/cuda/device_memory.h"

namespace meshwright::cuda {

// What a device sends another, in the order in which it is given. NCCL keeps nothing: a send ends
// with its receive, which may wait for memory that its own device still sends from, and so in a
// circle. So what is sent is copied and goes from the copy, in a stream of its own; for its lane a
// send is over with the copy, as programs expect of sends. There are as many copies as were ever on
// their way at once.
class SendQueue {
 public:
  // Where `lane` is to copy the next one to.
  std::byte* take(std::size_t bytes, cudaStream_t lane);
  // It is there when the lane has come so far; sends of it go into the stream that is returned.
  cudaStream_t hand_over(cudaStream_t lane);
  // All sends of it were given.
  void give();
  cudaStream_t stream() const { return stream_.get(); }

 private:
  struct Copy {
    Copy(std::size_t size, cudaStream_t lane) : memory(size, lane), bytes(size) {}
    StreamMemory memory;
    std::size_t bytes;
    Event there, sent;
  };
  Stream stream_;
  std::vector<std::unique_ptr<Copy>> free_;
  std::deque<std::unique_ptr<Copy>> sent_;  // the last may be on its way
  std::unique_ptr<Copy> next_;
};

}  // namespace meshwright::cuda
