#include "executor/cuda/send_queue.h"

#include <algorithm>

namespace meshwright::cuda {

std::byte* SendQueue::take(std::size_t bytes, cudaStream_t lane) {
  while (!sent_.empty() && is_done(cudaEventQuery(sent_.front()->sent.get()), "cudaEventQuery")) {
    free_.push_back(std::move(sent_.front()));
    sent_.pop_front();
  }
  const auto fits = std::ranges::find_if(
      free_, [&](const std::unique_ptr<Copy>& copy) { return copy->bytes >= bytes; });
  if (fits == free_.end()) {
    next_ = std::make_unique<Copy>(bytes, lane);
  } else {
    next_ = std::move(*fits);
    free_.erase(fits);
  }
  return static_cast<std::byte*>(next_->memory.data());
}

cudaStream_t SendQueue::hand_over(cudaStream_t lane) {
  next_->there.record(lane);
  check(cudaStreamWaitEvent(stream_.get(), next_->there.get(), 0), "cudaStreamWaitEvent");
  return stream_.get();
}

void SendQueue::give() {
  next_->sent.record(stream_.get());
  sent_.push_back(std::move(next_));
}

}  // namespace meshwright::cuda
