#include "costmodel/base/json_input.h"

#include <catch2/catch.hpp>

#include "costmodel/base/input_error.h"
#include "tests/bad_files.h"

namespace meshwright {
namespace {

JsonInput parse(std::string_view text) { return JsonInput::parse(text, "a.json"); }

}  // namespace

TEST_CASE("fields are read with their type") {
  const JsonInput file = parse(R"({"n": 3, "x": 0.5, "on": true, "name": "a", "rate": "25 GB/s",
                                   "list": [1, 2], "none": null})");
  CHECK(file.required<std::int64_t>("n") == 3);
  CHECK(file.required<double>("x") == 0.5);
  CHECK(file.required<double>("n") == 3.0);
  CHECK(file.required<bool>("on"));
  CHECK(file.required<std::string>("name") == "a");
  CHECK(file.required<BytesPerSecond>("rate") == BytesPerSecond(25e9));
  CHECK(file.at("list").list<std::int64_t>() == std::vector<std::int64_t>{1, 2});
  CHECK(!file.optional<bool>("none"));
  CHECK(!file.optional<bool>("absent"));
  CHECK_NOTHROW(file.reject_unknown_fields());
}

TEST_CASE("a reading failure names file, field, what was expected and what was found") {
  const JsonInput file = parse(R"({"links": [{"bandwidth": 25}], "n": 1.5, "big": 1e300,
                                   "huge": 18446744073709551615})");
  CHECK_THROWS_WITH(file.at("links").elements()[0].required<BytesPerSecond>("bandwidth"),
                    "a.json: links[0].bandwidth: expected a rate such as \"25 GB/s\", found 25");
  CHECK_THROWS_WITH(file.required<std::int64_t>("n"),
                    "a.json: n: expected a whole number, found 1.5");
  CHECK_THROWS_WITH(file.required<std::int64_t>("huge"),
                    "a.json: huge: expected a whole number, found 18446744073709551615");
  CHECK_THROWS_WITH(file.at("big").integer(1, 8),
                    "a.json: big: expected a whole number from 1 to 8, found 1e+300");
  CHECK_THROWS_WITH(file.required<std::string>("links"),
                    "a.json: links: expected a text, found a list of 1 elements");
  CHECK_THROWS_WITH(file.required<bool>("absent"), "a.json: the field \"absent\" is missing");
  CHECK_THROWS_WITH(file.at("n").at("x"), "a.json: n: expected an object, found 1.5");
}

TEST_CASE("a field nobody asked for is an error that lists the known ones") {
  const JsonInput file = parse(R"({"name": "a", "bandwith": "1 GB/s"})");
  file.required<std::string>("name");
  file.optional<BytesPerSecond>("bandwidth");
  CHECK_THROWS_WITH(file.reject_unknown_fields(),
                    "a.json: unknown field \"bandwith\"; known here: bandwidth, name");
}

TEST_CASE("text that is not JSON is refused with its place") {
  CHECK_THROWS_WITH(parse("{\"a\": 1,\n  oops}"),
                    Catch::StartsWith("a.json: line 2, column 3: not valid JSON: "));
  CHECK_THROWS_WITH(parse(""), Catch::Contains("not valid JSON"));
  CHECK_THROWS_WITH(parse("{\"a\": [1, 2"), Catch::Contains("not valid JSON"));
  CHECK_THROWS_WITH(parse("{\"a\": 1e999}"), Catch::Contains("a.json: not usable JSON"));
  CHECK_THROWS_WITH(parse("{\"a\": \"\xff\"}"), Catch::Contains("not valid JSON"));
  CHECK_THROWS_WITH(parse("{\"a\": 1, \"a\": 2}"), "a.json: the field \"a\" is given twice");
}

TEST_CASE("nesting is bounded before the document is built") {
  const std::string deep(65, '[');
  CHECK_THROWS_WITH(parse(deep + std::string(65, ']')), "a.json: nested deeper than 64 levels");
  const std::string allowed(64, '[');
  CHECK_NOTHROW(parse(allowed + std::string(64, ']')));
  CHECK_THROWS_AS(parse(std::string(1'000'000, '[')), InputError);
}

TEST_CASE("messages carry no control characters from the file") {
  CHECK_THROWS_WITH(parse("{\"a\\u001b[31m\": 1}").reject_unknown_fields(),
                    "a.json: unknown field \"a\\x1b[31m\"; known here: ");
  CHECK(printable("a\nb") == "a\\x0ab");
}

TEST_CASE("unreadable files are told apart") {
  check_unreadable_files([](const std::filesystem::path& file) { JsonInput::read(file); });
  const TemporaryFolder folder;
  const auto large = folder.write("large.json", std::string(2000, ' '));
  CHECK_THROWS_WITH(JsonInput::read(large, Bytes(1000)), Catch::EndsWith("is larger than 1000 B"));
}

}  // namespace meshwright
