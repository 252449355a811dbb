#include "executor/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "costmodel/base/input_error.h"
#include "costmodel/base/json_input.h"
#include "costmodel/base/write_file.h"

namespace meshwright {
namespace {

static_assert(std::endian::native == std::endian::little);

[[noreturn]] void fail(const std::filesystem::path& file, std::string_view problem) {
  throw InputError(fmt::format("{}: {}", printable(file.string()), problem));
}

struct FileCloser {
  void operator()(std::FILE* stream) const { std::fclose(stream); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

File open_file(const std::filesystem::path& file) {
  if (std::error_code ignored; std::filesystem::is_directory(file, ignored)) {
    fail(file, "is a directory, expected a file");
  }
  File stream(std::fopen(file.c_str(), "rb"));
  if (!stream) fail(file, fmt::format("cannot be read: {}", std::strerror(errno)));
  return stream;
}

void read_bytes(const std::filesystem::path& file, std::FILE* stream, std::int64_t offset, void* to,
                std::size_t count) {
  if (fseeko(stream, offset, SEEK_SET) != 0 || std::fread(to, 1, count, stream) != count) {
    fail(file, fmt::format("cannot be read: {} bytes from {} on", count, offset));
  }
}

std::int64_t width_of(StoredElement element) {
  switch (element) {
    case StoredElement::F32:
    case StoredElement::I32:
      return 4;
    case StoredElement::F64:
    case StoredElement::I64:
      return 8;
  }
  return 0;
}

StoredElement read_element(const JsonInput& entry) {
  const JsonInput text = entry.at("dtype");
  const auto name = text.as<std::string>();
  if (name == "F32") return StoredElement::F32;
  if (name == "F64") return StoredElement::F64;
  if (name == "I32") return StoredElement::I32;
  if (name == "I64") return StoredElement::I64;
  text.fail_expected("F32, F64, I32 or I64");
}

// How many bytes a shape takes; none: more than `most`.
std::optional<std::int64_t> bytes_of_shape(const std::vector<std::int64_t>& shape,
                                           std::int64_t width, std::int64_t most) {
  if (std::ranges::count(shape, 0) > 0) return 0;
  std::int64_t bytes = width;
  for (const std::int64_t size : shape) {
    if (bytes > most / size) return std::nullopt;
    bytes *= size;
  }
  return bytes;
}

StoredTensor read_entry(const JsonInput& entry, std::int64_t data_bytes) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 62;
  StoredTensor tensor{.element = read_element(entry)};
  for (const JsonInput& size : entry.at("shape").elements()) {
    tensor.shape.push_back(size.integer(0, kLargest));
  }
  const JsonInput offsets = entry.at("data_offsets");
  const auto ends = offsets.elements();
  if (ends.size() != 2) offsets.fail_expected("a begin and an end");
  tensor.begin = ends[0].integer(0, data_bytes);
  tensor.end = ends[1].integer(tensor.begin, data_bytes);
  entry.reject_unknown_fields();
  const auto bytes = bytes_of_shape(tensor.shape, width_of(tensor.element), data_bytes);
  if (bytes != tensor.end - tensor.begin) {
    entry.fail(fmt::format("the shape does not fit the {} bytes of data_offsets",
                           tensor.end - tensor.begin));
  }
  return tensor;
}

void check_coverage(const std::filesystem::path& file,
                    const std::map<std::string, StoredTensor>& tensors, std::int64_t data_bytes) {
  std::vector<std::pair<StoredTensor, std::string>> sorted;
  for (const auto& [name, tensor] : tensors) sorted.emplace_back(tensor, name);
  std::ranges::sort(sorted, {},
                    [](const auto& each) { return std::pair(each.first.begin, each.first.end); });
  std::int64_t covered = 0;
  for (const auto& [tensor, name] : sorted) {
    if (tensor.begin != covered) {
      fail(file, fmt::format("the data of \"{}\" begins at {}, expected {}", printable(name),
                             tensor.begin, covered));
    }
    covered = tensor.end;
  }
  if (covered != data_bytes) {
    fail(file, fmt::format("tensors end at {}, the data at {}", covered, data_bytes));
  }
}

std::string read_header(const std::filesystem::path& file, std::FILE* stream, std::int64_t size) {
  std::uint64_t length = 0;
  if (size < 8) fail(file, fmt::format("has {} bytes, too few for a safetensors file", size));
  read_bytes(file, stream, 0, &length, sizeof length);
  const auto most = static_cast<std::uint64_t>(SafetensorsFile::kLargestHeader.value());
  if (length > most) {
    fail(file, fmt::format("the header has {} bytes, expected at most {}", length, most));
  }
  if (length > static_cast<std::uint64_t>(size - 8)) {
    fail(file, fmt::format("the header has {} bytes, the file {}", length, size));
  }
  std::string header(length, ' ');
  read_bytes(file, stream, 8, header.data(), length);
  if (!header.starts_with('{')) fail(file, "the header does not begin with {");
  return header;
}

template <class T>
std::vector<double> numbers_of(const std::vector<std::byte>& bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    T value;
    std::memcpy(&value, &bytes[i * sizeof(T)], sizeof(T));
    numbers[i] = static_cast<double>(value);
  }
  return numbers;
}

std::vector<double> numbers_of(StoredElement element, const std::vector<std::byte>& bytes) {
  switch (element) {
    case StoredElement::F32:
      return numbers_of<float>(bytes);
    case StoredElement::F64:
      return numbers_of<double>(bytes);
    case StoredElement::I32:
      return numbers_of<std::int32_t>(bytes);
    case StoredElement::I64:
      return numbers_of<std::int64_t>(bytes);
  }
  return {};
}

template <class T>
void append_numbers(const std::vector<double>& numbers, std::string& text) {
  for (const double number : numbers) {
    const T value = static_cast<T>(number);
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::filesystem::path file) : file_(std::move(file)) {
  const File stream = open_file(file_);
  if (fseeko(stream.get(), 0, SEEK_END) != 0) fail(file_, "is not a regular file");
  const std::int64_t size = ftello(stream.get());
  const std::string header = read_header(file_, stream.get(), size);
  data_start_ = 8 + static_cast<std::int64_t>(header.size());
  const JsonInput document = JsonInput::parse(header, printable(file_.string()));
  for (const auto& [name, entry] : document.fields()) {
    if (name != "__metadata__") tensors_.emplace(name, read_entry(entry, size - data_start_));
  }
  check_coverage(file_, tensors_, size - data_start_);
}

GlobalTensor SafetensorsFile::read(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail(file_, fmt::format("has no tensor \"{}\"", printable(name)));
  const StoredTensor& tensor = found->second;
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.end - tensor.begin));
  const File stream = open_file(file_);
  read_bytes(file_, stream.get(), data_start_ + tensor.begin, bytes.data(), bytes.size());
  GlobalTensor result{tensor.shape, numbers_of(tensor.element, bytes)};
  if (tensor.element == StoredElement::I64 &&
      std::ranges::any_of(result.values, [](double x) { return x > 0x1p53 || x < -0x1p53; })) {
    fail(file_, fmt::format("\"{}\" holds an integer beyond 2^53", printable(name)));
  }
  return result;
}

GlobalTensors SafetensorsFile::read_all() const {
  GlobalTensors result;
  for (const auto& [name, tensor] : tensors_) result.emplace(name, read(name));
  return result;
}

void write_safetensors(const std::filesystem::path& file, const GlobalTensors& tensors,
                       Precision precision) {
  assert(precision == Precision::FP32 || precision == Precision::FP64);
  const bool wide = precision == Precision::FP64;
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t begin = data.size();
    if (wide) {
      append_numbers<double>(tensor.values, data);
    } else {
      append_numbers<float>(tensor.values, data);
    }
    header[name] = {{"dtype", wide ? "F64" : "F32"},
                    {"shape", tensor.shape},
                    {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  write_text_file(file,
                  std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data);
}

}  // namespace meshwright
