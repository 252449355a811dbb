#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "costmodel/base/precision.h"
#include "costmodel/base/units.h"
#include "executor/global_tensor.h"

// Files of weights as Hugging Face writes them (github.com/huggingface/safetensors): 8 bytes with
// the header's length, a header in JSON that gives each tensor's type, shape and place, the data.
// Little-endian.
namespace meshwright {

enum class StoredElement { F32, F64, I32, I64 };

struct StoredTensor {
  StoredElement element = StoredElement::F32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, end = 0;  // bytes, after the header
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

// A file whose header was read and found right: ranges fit shapes and cover the data without holes
// and overlaps. Everything else is an InputError.
class SafetensorsFile {
 public:
  static constexpr Bytes kLargestHeader{64 << 20};

  explicit SafetensorsFile(std::filesystem::path file);
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  // Integers that a double cannot hold are an InputError.
  GlobalTensor read(const std::string& name) const;
  GlobalTensors read_all() const;

 private:
  std::filesystem::path file_;
  std::map<std::string, StoredTensor> tensors_;
  std::int64_t data_start_ = 0;
};

// FP32 or FP64; tensors in the order of their names.
void write_safetensors(const std::filesystem::path& file, const GlobalTensors& tensors,
                       Precision precision);

}  // namespace meshwright
