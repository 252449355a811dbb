#include "costmodel/base/precision.h"

namespace meshwright {

std::string_view to_text(Precision precision) {
  switch (precision) {
    case Precision::FP64:
      return "fp64";
    case Precision::FP32:
      return "fp32";
    case Precision::TF32:
      return "tf32";
    case Precision::FP16:
      return "fp16";
    case Precision::BF16:
      return "bf16";
    case Precision::FP8:
      return "fp8";
  }
  return {};
}

std::optional<Precision> parse_precision(std::string_view text) {
  for (const Precision precision : kPrecisions) {
    if (to_text(precision) == text) return precision;
  }
  return std::nullopt;
}

Bytes bytes_per_element(Precision precision) {
  switch (precision) {
    case Precision::FP64:
      return Bytes(8);
    case Precision::FP32:
    case Precision::TF32:
      return Bytes(4);
    case Precision::FP16:
    case Precision::BF16:
      return Bytes(2);
    case Precision::FP8:
      return Bytes(1);
  }
  return Bytes(0);
}

}  // namespace meshwright
