#include "costmodel/base/units.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <limits>

#include "costmodel/base/input_error.h"

namespace meshwright {

TEST_CASE("amounts are read with decimal and binary prefixes") {
  CHECK(parse_quantity<Bytes>("80 GiB") == Bytes(80ll << 30));
  CHECK(parse_quantity<Bytes>("80GB") == Bytes(80'000'000'000));
  CHECK(parse_quantity<Bytes>("1.5 KiB") == Bytes(1536));
  CHECK(parse_quantity<Bytes>("0 B") == Bytes(0));
  CHECK(parse_quantity<BytesPerSecond>("25 GB/s") == BytesPerSecond(25e9));
  CHECK(parse_quantity<Seconds>("2.5 us") == Seconds(2.5 * 1e-6));
  CHECK(parse_quantity<Seconds>("2 min") == Seconds(120));
  CHECK(parse_quantity<FlopsPerSecond>("989 TFLOP/s") == FlopsPerSecond(989e12));
  CHECK(parse_quantity<DollarsPerHour>("2.5 $/h") == DollarsPerHour(2.5));
}

TEST_CASE("a small b is a bit") {
  CHECK(parse_quantity<BytesPerSecond>("400 Gb/s") == BytesPerSecond(50e9));
}

TEST_CASE("what is not an amount of the unit is refused") {
  for (const char* text :
       {"", " ", "GiB", "80", "80 GiB ", " 80 GiB", "80 Gib/s", "80 GIB", "-1 GiB", "nan GiB",
        "inf B", "1e400 B", "80 GiB x", "0.5 B", "1e30 B", "8 kiB"}) {
    CAPTURE(text);
    CHECK(!parse_quantity<Bytes>(text));
  }
  CHECK(!parse_quantity<Seconds>("3 B"));
  CHECK(!parse_quantity<BytesPerSecond>("3 mB/s"));
}

TEST_CASE("amounts are printed with four digits and the fitting prefix") {
  CHECK(to_text(Bytes(0)) == "0 B");
  CHECK(to_text(80_GiB) == "80 GiB");
  CHECK(to_text(Bytes(1536)) == "1.5 KiB");
  CHECK(to_text(Bytes((1ll << 20) - 1)) == "1 MiB");
  CHECK(to_text(BytesPerSecond(50e9)) == "50 GB/s");
  CHECK(to_text(Flops(123'456'789)) == "123.5 MFLOP");
  CHECK(to_text(Seconds(0.0000025)) == "2.5 us");
  CHECK(to_text(Seconds(93.4)) == "93.4 s");
  CHECK(to_text(Seconds(5.69e-16)) == "0 s");
  CHECK(to_text(DollarsPerHour(2.5)) == "2.5 $/h");
  CHECK(count_to_text(8'030'261'248) == "8.03 B");
  CHECK(count_to_text(12) == "12");
}

TEST_CASE("what is printed reads back within its rounding") {
  CHECK(rc::check("rates", [] {
    const auto amount = *rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 50);
    const auto read = parse_quantity<BytesPerSecond>(to_text(BytesPerSecond(double(amount))));
    RC_ASSERT(read.has_value());
    RC_ASSERT(std::abs(read->value() - double(amount)) <= 0.0005 * double(amount) + 0.5);
  }));
}

TEST_CASE("rates turn amounts into times") {
  CHECK(Bytes(50'000'000'000) / BytesPerSecond(25e9) == Seconds(2));
  CHECK(Flops(10) / FlopsPerSecond(5) == Seconds(2));
  CHECK(Bytes(100) / Seconds(4) == BytesPerSecond(25));
}

TEST_CASE("sizes that leave 64 bits are an input error, not a wrapped number") {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_AS(checked_multiply(kMost, 2), InputError);
  CHECK_THROWS_AS(checked_add(kMost, 1), InputError);
  CHECK_THROWS_AS(checked_product({1ll << 31, 1ll << 31, 4}), InputError);
  CHECK_THROWS_AS(Bytes(kMost) + Bytes(1), InputError);
  CHECK_THROWS_WITH(checked_multiply(1ll << 40, 1ll << 40),
                    "the sizes are too large: 1099511627776 * 1099511627776 does not fit into 64 "
                    "bits");
  CHECK(checked_product({3, 5, 7}) == 105);
}

}  // namespace meshwright
