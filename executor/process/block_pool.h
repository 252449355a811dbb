#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace meshwright {

// Memory for a message, with any content.
struct MessageBlock {
  std::unique_ptr<std::byte[]> memory;
  std::size_t size = 0, capacity = 0;

  std::span<std::byte> bytes() const { return {memory.get(), size}; }
};

// Keeps large blocks for the next messages: the system gives fresh memory page by page, which takes
// longer than what is done with it.
class BlockPool {
 public:
  MessageBlock take(std::size_t size);
  void give_back(MessageBlock block);

 private:
  std::vector<MessageBlock> unused_;
  std::size_t kept_ = 0;  // bytes
};

}  // namespace meshwright
