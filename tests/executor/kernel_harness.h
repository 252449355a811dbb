#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "executor/cpu/kernels.h"
#include "executor/stored.h"

namespace meshwright {

using Sizes = Extents;

// The same numbers for the same seed with every standard library, unlike its distributions.
class TestRandom {
 public:
  explicit TestRandom(unsigned seed) : random_(seed) {}
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_() % (most - least + 1));
  }
  double number() { return static_cast<double>(random_()) / 2147483648.0 - 1.0; }  // in [-1, 1)
  bool chance() { return random_() % 2 == 0; }

 private:
  std::mt19937 random_;
};

// A kernel's operand with the buffer it lies in. What does not belong to the operand is NaN: a
// kernel that reads it shows.
struct TestOperand {
  Operand operand;
  std::vector<double> buffer;

  Places places() const { return Places(operand.sizes, operand.strides); }
  double& at(std::int64_t i) {
    return buffer[static_cast<std::size_t>(operand.offset + places()[i])];
  }
  std::vector<double> values() const {
    const Places all = places();
    std::vector<double> result;
    for (std::int64_t i = 0; i < all.count(); ++i) {
      result.push_back(buffer[static_cast<std::size_t>(operand.offset + all[i])]);
    }
    return result;
  }
  void set(const std::vector<double>& values) {
    const Places all = places();
    for (std::size_t i = 0; i < values.size(); ++i) {
      buffer[static_cast<std::size_t>(operand.offset + all[static_cast<std::int64_t>(i)])] =
          values[i];
    }
  }
};

inline TestOperand in_buffer(Operand operand) {
  std::int64_t last = operand.offset;
  for (std::size_t i = 0; i < operand.sizes.size(); ++i) {
    last += (operand.sizes[i] - 1) * operand.strides[i];
  }
  const auto count = static_cast<std::size_t>(last + 3);
  return {std::move(operand), std::vector<double>(count, std::nan(""))};
}

// Rows with gaps between them at an offset; numbers in [-1, 1).
inline TestOperand random_real(TestRandom& random, Sizes sizes) {
  Operand operand = dense_operand(sizes, BufferElement::Real, random.between(0, 5));
  if (sizes.size() > 1) {
    const std::int64_t gap = random.between(0, 4);
    std::int64_t stride = sizes.back() + gap;
    for (std::size_t i = sizes.size() - 1; i-- > 0; stride *= sizes[i]) operand.strides[i] = stride;
  }
  TestOperand result = in_buffer(std::move(operand));
  for (std::int64_t i = 0; i < result.places().count(); ++i) result.at(i) = random.number();
  return result;
}

// [k, n], stored so or as [n, k].
inline TestOperand random_weight(TestRandom& random, std::int64_t k, std::int64_t n) {
  if (random.chance()) return random_real(random, {k, n});
  TestOperand stored = random_real(random, {n, k});
  stored.operand.sizes = {k, n};
  stored.operand.strides = {1, stored.operand.strides[0]};
  return stored;
}

inline TestOperand random_vector(TestRandom& random, std::int64_t n) {
  return random_real(random, {n});
}

inline TestOperand random_index(TestRandom& random, Sizes sizes, std::int64_t least,
                                std::int64_t most) {
  TestOperand result = in_buffer(dense_operand(std::move(sizes), BufferElement::Index, 2));
  for (double& value : result.buffer) value = static_cast<double>(random.between(least, most));
  return result;
}

inline TestOperand indices(const std::vector<double>& values) {
  TestOperand result =
      in_buffer(dense_operand({static_cast<std::int64_t>(values.size())}, BufferElement::Index, 0));
  result.set(values);
  return result;
}

inline TestOperand doubles(std::vector<double> values) {
  TestOperand result = in_buffer(
      dense_operand({static_cast<std::int64_t>(values.size())}, BufferElement::Double, 0));
  result.set(values);
  return result;
}

template <class Real>
constexpr Precision precision_of() {
  if constexpr (std::is_same_v<Real, double>) return Precision::FP64;
  if constexpr (std::is_same_v<Real, BFloat16>) return Precision::BF16;
  if constexpr (std::is_same_v<Real, Float16>) return Precision::FP16;
  return Precision::FP32;
}

template <class T>
std::vector<std::byte> to_bytes(const std::vector<double>& numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const bool none = std::is_integral_v<T> && std::isnan(numbers[i]);
    const T value = stored<T>(none ? 1 << 30 : numbers[i]);
    std::memcpy(&bytes[i * sizeof(T)], &value, sizeof(T));
  }
  return bytes;
}
template <class T>
void from_bytes(const std::vector<std::byte>& bytes, std::vector<double>& numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    T value;
    std::memcpy(&value, &bytes[i * sizeof(T)], sizeof(T));
    numbers[i] = static_cast<double>(value);
  }
}

// Runs a kernel on the operands and brings back what they hold then.
template <class Real = double>
void run_on(Kernel kernel, const std::vector<TestOperand*>& operands,
            const StepSettings& settings = {}, std::int64_t batch_row = 0) {
  std::vector<std::vector<std::byte>> storage;
  std::vector<std::byte*> buffers;
  kernel.operands.clear();
  for (const TestOperand* o : operands) {
    kernel.operands.push_back(o->operand);
    storage.push_back(o->operand.element == BufferElement::Real ? to_bytes<Real>(o->buffer)
                      : o->operand.element == BufferElement::Double
                          ? to_bytes<double>(o->buffer)
                          : to_bytes<std::int32_t>(o->buffer));
    buffers.push_back(storage.back().data());
  }
  run_kernel({kernel, buffers, settings, batch_row}, precision_of<Real>());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i]->operand.element == BufferElement::Real) {
      from_bytes<Real>(storage[i], operands[i]->buffer);
    } else if (operands[i]->operand.element == BufferElement::Double) {
      from_bytes<double>(storage[i], operands[i]->buffer);
    } else {
      from_bytes<std::int32_t>(storage[i], operands[i]->buffer);
    }
  }
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline void check_close(const std::vector<double>& found, const std::vector<double>& expected,
                        double tolerance) {
  REQUIRE(found.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double error = std::fabs(found[i] - expected[i]);
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  CHECK(worst <= tolerance);
}

// The derivative of `value` after every element of x, by a stencil of four points (error h^4).
inline std::vector<double> differences(TestOperand& x, const std::function<double()>& value) {
  constexpr double h = 1e-3;
  std::vector<double> result;
  for (std::int64_t i = 0; i < x.places().count(); ++i) {
    const double middle = x.at(i);
    const auto beside = [&](double distance) {
      x.at(i) = middle + distance;
      return value();
    };
    const double slope =
        (8 * (beside(h) - beside(-h)) - (beside(2 * h) - beside(-2 * h))) / (12 * h);
    x.at(i) = middle;
    result.push_back(slope);
  }
  return result;
}

inline std::vector<double> plus(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

}  // namespace meshwright
