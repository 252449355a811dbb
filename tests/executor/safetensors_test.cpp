#include "executor/safetensors.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "costmodel/base/input_error.h"
#include "tests/bad_files.h"

namespace meshwright {
namespace {

std::string bytes_of_length(std::uint64_t length) {
  return std::string(reinterpret_cast<const char*>(&length), 8);
}

// A file with this header, followed by `data` bytes.
std::string file_text(const std::string& header, std::size_t data) {
  return bytes_of_length(header.size()) + header + std::string(data, '\0');
}

void check_refused(const std::string& text, const std::string& reason) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.safetensors", text);
  CHECK_THROWS_MATCHES(SafetensorsFile(file), InputError,
                       Catch::Message(file.string() + ": " + reason));
}

}  // namespace

TEST_CASE("tensors survive being written and read") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "a.safetensors";
  const GlobalTensors tensors = {
      {"b.weight", {{2, 3}, {1, -2, 3.5, 4, 5, 0.1}}}, {"a", {{}, {7}}}, {"none", {{0, 4}, {}}}};
  write_safetensors(file, tensors, Precision::FP64);
  CHECK(SafetensorsFile(file).read_all() == tensors);
  write_safetensors(file, tensors, Precision::FP32);
  const SafetensorsFile single(file);
  CHECK(single.tensors().at("b.weight") == StoredTensor{StoredElement::F32, {2, 3}, 4, 28});
  CHECK(single.read("b.weight").values[5] == static_cast<double>(0.1f));
  CHECK_THROWS_WITH(single.read("c"), file.string() + ": has no tensor \"c\"");
}

TEST_CASE("a file as Hugging Face writes it is read") {
  const std::int64_t numbers[] = {5, -100};
  std::string text = file_text(
      R"({"__metadata__":{"format":"pt"},"ids":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}}  )",
      16);
  std::memcpy(text.data() + text.size() - 16, numbers, 16);
  const TemporaryFolder folder;
  const SafetensorsFile file(folder.write("a.safetensors", text));
  CHECK(file.read_all() == GlobalTensors{{"ids", {{2}, {5, -100}}}});
}

TEST_CASE("integers that a double cannot hold are refused") {
  std::string text = file_text(R"({"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", 8);
  text.back() = 0x7f;
  const TemporaryFolder folder;
  const auto file = folder.write("a.safetensors", text);
  CHECK_THROWS_WITH(SafetensorsFile(file).read("i"),
                    file.string() + ": \"i\" holds an integer beyond 2^53");
}

TEST_CASE("files that cannot be read as tensors are refused") {
  check_unreadable_files([](const std::filesystem::path& file) { SafetensorsFile{file}; });
}

TEST_CASE("a safetensors file with a wrong header is refused with the reason") {
  check_refused("abc", "has 3 bytes, too few for a safetensors file");
  check_refused(bytes_of_length(~0ull) + "{}",
                "the header has 18446744073709551615 bytes, expected at most 67108864");
  check_refused(bytes_of_length(100) + "{}", "the header has 100 bytes, the file 10");
  check_refused(file_text("[1]", 0), "the header does not begin with {");
  check_refused(file_text(" {}", 0), "the header does not begin with {");
  check_refused(file_text("{}", 4), "tensors end at 0, the data at 4");
}

TEST_CASE("a safetensors file with a wrong tensor is refused with the reason") {
  const auto with = [](const std::string& dtype, const std::string& shape,
                       const std::string& offsets) {
    return file_text(R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape +
                         R"(,"data_offsets":)" + offsets + "}}",
                     8);
  };
  check_refused(with("F8", "[2]", "[0,8]"), "w.dtype: expected F32, F64, I32 or I64, found \"F8\"");
  check_refused(with("F32", "[3]", "[0,8]"),
                "w: the shape does not fit the 8 bytes of data_offsets");
  check_refused(with("F32", "[4611686018427387904,4]", "[0,8]"),
                "w: the shape does not fit the 8 bytes of data_offsets");
  check_refused(with("F32", "[-2]", "[0,8]"),
                "w.shape[0]: expected a whole number from 0 to 4611686018427387904, found -2");
  check_refused(with("F32", "[2]", "[0,16]"),
                "w.data_offsets[1]: expected a whole number from 0 to 8, found 16");
  check_refused(with("F32", "[2]", "[8,0]"),
                "w.data_offsets[1]: expected a whole number from 8 to 8, found 0");
  check_refused(with("F32", "[2]", "[0]"),
                "w.data_offsets: expected a begin and an end, found a list of 1 elements");
  check_refused(with("F32", "[1]", "[4,8]"), "the data of \"w\" begins at 4, expected 0");
  check_refused(file_text(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                          R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                          8),
                "the data of \"b\" begins at 4, expected 8");
  check_refused(file_text(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8),
                "a: unknown field \"x\"; known here: data_offsets, dtype, shape");
  check_refused(file_text(R"({"a":{"dtype":"F32","shape":[2]}})", 8),
                "a: the field \"data_offsets\" is missing");
  check_refused(file_text(R"({"a":{},"a":{}})", 8), "the field \"a\" is given twice");
}

}  // namespace meshwright
