#include "executor/cuda/send_queue.h"

namespace meshwright::cuda {

SendQueue::SendQueue(std::byte* memory, const SendSpace& space) {
  for (std::int64_t i = 0; i < space.copies; ++i) {
    copies_.push_back(std::make_unique<Copy>());
    copies_.back()->memory = memory + i * space.each.value();
  }
}

std::byte* SendQueue::take(cudaStream_t lane) {
  const Copy& copy = *copies_[next_];
  if (copy.on_its_way) {
    check(cudaStreamWaitEvent(lane, copy.sent.get(), 0), "cudaStreamWaitEvent");
  }
  return copy.memory;
}

cudaStream_t SendQueue::hand_over(cudaStream_t lane) {
  const Copy& copy = *copies_[next_];
  copy.there.record(lane);
  check(cudaStreamWaitEvent(stream_.get(), copy.there.get(), 0), "cudaStreamWaitEvent");
  return stream_.get();
}

void SendQueue::give() {
  Copy& copy = *copies_[next_];
  copy.sent.record(stream_.get());
  copy.on_its_way = true;
  next_ = (next_ + 1) % copies_.size();
}

void SendQueue::forget() {
  for (const auto& copy : copies_) copy->on_its_way = false;
}

}  // namespace meshwright::cuda
