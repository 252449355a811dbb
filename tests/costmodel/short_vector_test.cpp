#include "costmodel/base/short_vector.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <random>

#include "costmodel/base/shared_text.h"

namespace meshwright {

TEST_CASE("a short vector is a vector, below and above what lies in it") {
  using Short = ShortVector<std::int64_t, 4>;
  std::mt19937 random(3);
  for (int run = 0; run < 50; ++run) {
    Short values;
    std::vector<std::int64_t> expected;
    for (int change = 0; change < 60; ++change) {
      CAPTURE(run, change);
      const auto value = static_cast<std::int64_t>(random() % 9);
      const auto at = static_cast<std::ptrdiff_t>(random() % (expected.size() + 1));
      const std::size_t size = random() % 9;
      switch (expected.empty() ? 0 : random() % 6) {
        case 0:
          values.push_back(value);
          expected.push_back(value);
          break;
        case 1:
          CHECK(*values.insert(values.begin() + at, value) == value);
          expected.insert(expected.begin() + at, value);
          break;
        case 2:
          if (at == std::ssize(expected)) break;
          values.erase(values.begin() + at);
          expected.erase(expected.begin() + at);
          break;
        case 3:
          values.pop_back();
          expected.pop_back();
          break;
        case 4:
          values.resize(size);
          expected.resize(size);
          break;
        default:
          values.back() = expected.back() = value;
      }
      const Short copy = values;
      REQUIRE(copy == Short(expected));
      REQUIRE(std::vector(copy.begin(), copy.end()) == expected);
      Short other = copy;
      other.push_back(0);
      CHECK(copy < other);
      CHECK(copy != other);
    }
  }
}

TEST_CASE("a shared text is equal by what it says, and a copy is the same one") {
  const SharedText name("layers.0.attention.qkv");
  const SharedText copy = name, again(std::string("layers.0.attention.qkv"));
  CHECK(&copy.text() == &name.text());
  CHECK(&again.text() != &name.text());
  CHECK(again == name);
  CHECK(!(name == SharedText("layers.1.attention.qkv")));
  CHECK(SharedText() == "");
}

}  // namespace meshwright
