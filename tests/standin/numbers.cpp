#include "tests/standin/numbers.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <array>

namespace meshwright::standin {
namespace {

template <class Stored>
double read_as(const void* from, std::int64_t i) {
  return static_cast<double>(static_cast<const Stored*>(from)[i]);
}
template <class Stored>
void write_as(void* to, std::int64_t i, double value) {
  static_cast<Stored*>(to)[i] = static_cast<Stored>(value);
}
// Through float: what a GPU adds up is one.
template <class Stored>
double read_small(const void* from, std::int64_t i) {
  return static_cast<double>(static_cast<float>(static_cast<const Stored*>(from)[i]));
}
template <class Stored>
void write_small(void* to, std::int64_t i, double value) {
  static_cast<Stored*>(to)[i] = static_cast<Stored>(static_cast<float>(value));
}

struct Access {
  std::size_t bytes;
  double (*read)(const void*, std::int64_t);
  void (*write)(void*, std::int64_t, double);
};

const Access& access_to(Number number) {
  static const std::array<Access, 8> kAll = {{
      {8, read_as<double>, write_as<double>},
      {4, read_as<float>, write_as<float>},
      {2, read_small<__half>, write_small<__half>},
      {2, read_small<__nv_bfloat16>, write_small<__nv_bfloat16>},
      {1, read_small<__nv_fp8_e4m3>, write_small<__nv_fp8_e4m3>},
      {4, read_as<std::int32_t>, write_as<std::int32_t>},
      {8, read_as<std::int64_t>, write_as<std::int64_t>},
      {1, read_as<std::uint8_t>, write_as<std::uint8_t>},
  }};
  return kAll[static_cast<std::size_t>(number)];
}

}  // namespace

std::size_t bytes_of(Number number) { return access_to(number).bytes; }
double read_number(Number number, const void* from, std::int64_t i) {
  return access_to(number).read(from, i);
}
void write_number(Number number, void* to, std::int64_t i, double value) {
  access_to(number).write(to, i, value);
}
double rounded_to(Number number, double value) {
  alignas(8) std::array<std::byte, 8> place{};
  write_number(number, place.data(), 0, value);
  return read_number(number, place.data(), 0);
}

}  // namespace meshwright::standin
