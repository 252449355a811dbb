#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "costmodel/base/units.h"

namespace meshwright {

// A number format that devices compute in.
enum class Precision { FP64, FP32, TF32, FP16, BF16, FP8 };

inline constexpr std::array kPrecisions = {Precision::FP64, Precision::FP32, Precision::TF32,
                                           Precision::FP16, Precision::BF16, Precision::FP8};

// "bf16" and so on, as options and files write it.
std::string_view to_text(Precision precision);
std::optional<Precision> parse_precision(std::string_view text);

// What one element takes in memory. TF32 is a way to multiply: its elements are stored as FP32.
Bytes bytes_per_element(Precision precision);

}  // namespace meshwright
