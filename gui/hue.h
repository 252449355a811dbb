#pragma once

#include <cstddef>
#include <cstdint>

namespace meshwright {

// What a bar of the timeline or of a breakdown stands for. Computing is cool, moving data warm; the
// colours keep apart for people who see fewer of them, too.
enum class Hue : std::uint8_t {
  Forward,
  InputGradient,
  WeightGradient,
  Recompute,
  Optimizer,
  TensorTransfer,
  DataTransfer,
  PipelineTransfer,
  Copy,
  Idle,
};
inline constexpr std::size_t kHues = 10;
const char* to_text(Hue hue);

}  // namespace meshwright
