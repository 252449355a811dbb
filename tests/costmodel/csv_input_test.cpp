#include "costmodel/base/csv_input.h"

#include <catch2/catch.hpp>

#include "costmodel/base/input_error.h"
#include "tests/bad_files.h"

namespace meshwright {

TEST_CASE("a CSV table is read by column, empty fields are absent") {
  const CsvInput table =
      CsvInput::parse("id,time,note\r\na,1.5,\"x, \"\"y\"\"\nz\"\r\n\nb,,\n", "runs.csv");
  REQUIRE(table.rows() == 2);
  CHECK(table.text(0, "note") == "x, \"y\"\nz");
  CHECK(table.number(0, "time") == 1.5);
  CHECK(table.text(1, "id") == "b");
  CHECK(!table.number(1, "time"));
  CHECK(!table.text(1, "note"));
  CHECK(table.has_column("note"));
  CHECK(!table.has_column("notes"));
}

TEST_CASE("whole numbers are whole and not too small") {
  const CsvInput table = CsvInput::parse("n\n12\n1.5\n-1\n", "t.csv");
  CHECK(table.integer(0, "n") == 12);
  CHECK_THROWS_WITH(table.integer(1, "n"),
                    "t.csv: line 3, n: expected a whole number of at least 0, found 1.5");
  CHECK_THROWS_WITH(table.integer(2, "n"),
                    "t.csv: line 4, n: expected a whole number of at least 0, found -1");
  CHECK_THROWS_WITH(table.integer(0, "n", 13),
                    "t.csv: line 2, n: expected a whole number of at least 13, found 12");
}

TEST_CASE("bad CSV names file, line and what was expected") {
  CHECK_THROWS_WITH(CsvInput::parse("", "t.csv"), "t.csv: expected a header line, found nothing");
  CHECK_THROWS_WITH(CsvInput::parse("a,b\n1\n", "t.csv"),
                    "t.csv: line 2: expected 2 fields as in the header, found 1");
  CHECK_THROWS_WITH(CsvInput::parse("a\n\"open\n", "t.csv"),
                    "t.csv: line 2: a quotation mark is never closed");
  CHECK_THROWS_WITH(CsvInput::parse("a\n\"x\"y\n", "t.csv"),
                    "t.csv: line 2: expected a comma after a quoted field, found y");
  const CsvInput table = CsvInput::parse("a\nx\n", "t.csv");
  CHECK_THROWS_WITH(table.number(0, "a"), "t.csv: line 2, a: expected a number, found x");
  CHECK_THROWS_WITH(table.text(0, "b"), "t.csv: the column b is missing");
  CHECK_THROWS_WITH(table.require_columns({"a", "b"}), "t.csv: the column b is missing");
  check_unreadable_files([](const auto& file) { CsvInput::read(file); });
}

TEST_CASE("fields are quoted where they must be, and read back") {
  CHECK(csv_field("plain") == "plain");
  for (const std::string text : {"a,b", "say \"x\"", "two\nlines", ""}) {
    const CsvInput table = CsvInput::parse("f,g\n" + csv_field(text) + ",1\n", "t.csv");
    CHECK(table.text(0, "f").value_or("") == text);
  }
}

}  // namespace meshwright
