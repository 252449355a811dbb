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
  ExpertTransfer,
  Copy,
  Idle,
};
inline constexpr std::size_t kHues = 11;
const char* to_text(Hue hue);
// What shares its colour with another is told apart by stripes.
constexpr bool is_striped(Hue hue) { return hue == Hue::ExpertTransfer; }

}  // namespace meshwright
