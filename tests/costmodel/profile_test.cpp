#include "costmodel/profile/profile.h"

#include <catch2/catch.hpp>
#include <set>

#include "costmodel/base/input_error.h"
#include "costmodel/base/json_input.h"
#include "costmodel/base/presets.h"
#include "costmodel/cluster/cluster_name.h"
#include "costmodel/profile/kernel_shape.h"
#include "costmodel/profile/profile_file.h"
#include "costmodel/profile/profile_rows.h"
#include "tests/bad_files.h"
#include "tests/costmodel/profile_examples.h"

namespace meshwright {
namespace {

void check_refused(const std::string& from, const std::string& to, const std::string& message) {
  CAPTURE(from, to);
  const std::string text = replaced(profile_text(small_profile()), from, to);
  CHECK_THROWS_WITH(parse_profile(text, "p.json"), Catch::StartsWith(message));
}

}  // namespace

TEST_CASE("a profile survives JSON, and equal profiles are equal texts") {
  const Profile profile = small_profile();
  const std::string text = profile_text(profile);
  CHECK(parse_profile(text, "p.json") == profile);
  CHECK(profile_text(parse_profile(text, "p.json")) == text);
}

TEST_CASE("every row survives as cells, and its checksum sees every cell") {
  const Profile profile = small_profile();
  for_each_table(profile, [](const auto& rows) {
    using Row = typename std::decay_t<decltype(rows)>::value_type;
    for (const Row& row : rows) {
      const std::vector<Cell> cells = cells_of(row);
      CHECK(row_of<Row>(cells) == row);
      for (std::size_t i = 0; i < cells.size(); ++i) {
        auto changed = cells;
        changed[i] = std::string("something else");
        CHECK(checksum_of(changed) != checksum_of(cells));
      }
    }
  });
  // Not the same text cut elsewhere.
  CHECK(checksum_of({std::string("ab"), std::string("c")}) !=
        checksum_of({std::string("a"), std::string("bc")}));
}

TEST_CASE("merging keeps everything, and of the same thing the later measurement") {
  Profile first, second;
  first.provenances = {{"box", "", "meshwright"}};
  second.provenances = {{"another", "", "meshwright"}, {"box", "", "meshwright"}};
  first.kernels = {kernel_time(KernelKind::Add, {64}, 1.0), kernel_time(KernelKind::Add, {65}, 1)};
  second.kernels = {kernel_time(KernelKind::Add, {64}, 2.0, 1),
                    kernel_time(KernelKind::Add, {65}, 2.0, 1),
                    kernel_time(KernelKind::Add, {64}, 3.0, 0)};
  second.kernels[0].evidence.date = "2026-05-02";
  second.kernels[1].evidence.date = "2026-04-30";

  const Profile both = merged(first, second);
  // Provenances in the order of their names: another, box.
  REQUIRE(both.kernels.size() == 3);
  CHECK(both.kernels[0].time == Seconds(3.0));
  CHECK(both.kernels[1].time == Seconds(2.0));  // later than 2026-05-01
  CHECK(both.kernels[2].time == Seconds(1.0));  // the other is older
  CHECK(merged(both, both) == both);
  CHECK(merged(both, first) == both);
  CHECK(merged({}, both) == both);
}

TEST_CASE("a profile file that is wrong is refused with the place") {
  check_refused("meshwright-profile", "meshwright-plan",
                "p.json: format: expected \"meshwright-profile\", found \"meshwright-plan\"");
  check_refused("\"version\": 1", "\"version\": 2", "p.json: version: expected 1, found 2");
  check_refused("\"matmul\"", "\"matmull\"",
                "p.json: kernels.rows[0]: kind: expected a kind of kernel such as matmul, found "
                "\"matmull\"");
  check_refused("64x64x64", "64x-64x64",
                "p.json: kernels.rows[0]: shape: expected sizes such as 1024x4096, found "
                "\"64x-64x64\"");
  check_refused("0.3333333333333333", "0",
                "p.json: kernels.rows[0]: time_s: expected a number "
                "above 0, found 0");
  check_refused("1048576", "0",
                "p.json: transfers.rows[0]: bytes: expected a whole number from 1 on, found 0");
  check_refused("\"2024\",null", "null,null",
                "p.json: kernels.rows[1]: date: expected a text, found nothing");
  check_refused("\"2024\",null", "\"today\",null",
                "p.json: kernels.rows[1][1]: expected a date such as 2026-02-03, 2026-02 or 2026, "
                "found \"today\"");
  check_refused("\"all_reduce\",4,2", "\"all_reduce\",2,3",
                "p.json: transfers.rows[0]: expected two devices or more, as many on each node");
  check_refused("[1,\"2024\"", "[7,\"2024\"",
                "p.json: kernels.rows[1][0]: expected a number below 2, found 7");
  check_refused("[1,\"2024\",", "[1,\"2024\",1,",
                "p.json: kernels.rows[1]: expected 11 values, one for each column, found a list of "
                "12 elements");
  check_refused("\"links\"", "\"likns\"", "p.json: unknown field \"likns\"");
}

TEST_CASE("a date is a day of the calendar, or less of it") {
  for (const char* date : {"2026", "2026-02", "2026-02-28", "2024-02-29", "1999-12-31"}) {
    CAPTURE(date);
    CHECK(is_date(date));
  }
  for (const char* text :
       {"", "26", "2026-", "2026-00", "2026-13", "2026-02-29", "2026-02-00", "2026/02/03",
        "2026-2-3", "+026", "-026-01", "2026-02-03T", "not a date"}) {
    CAPTURE(text);
    CHECK(!is_date(text));
  }
}

TEST_CASE("a fit is found by its names, the latest one") {
  Profile profile = small_profile();
  CHECK(fit_value(profile, "core", "matmul", "latency_s") == -0.25);
  CHECK(!fit_value(profile, "core", "matmul", "latency"));
  CHECK(!fit_value(profile, "h100-sxm", "matmul", "latency_s"));
  profile.fits.push_back(profile.fits[0]);
  profile.fits[1].evidence = measured_by(0, "2026-06-01");
  profile.fits[1].value = 3;
  CHECK(fit_value(profile, "core", "matmul", "latency_s") == 3);
  std::swap(profile.fits[0], profile.fits[1]);
  CHECK(fit_value(profile, "core", "matmul", "latency_s") == 3);
}

TEST_CASE("every shipped profile is of a device of a shipped cluster, and in the one form") {
  std::set<std::string> devices;
  for (const std::string& name : preset_names(std::string(MESHWRIGHT_DATA) + "/clusters")) {
    for (const NodeType& type : find_cluster(name, MESHWRIGHT_DATA).node_types) {
      devices.insert(type.device.name);
    }
  }
  const std::filesystem::path folder = std::string(MESHWRIGHT_DATA) + "/profiles";
  const auto names = preset_names(folder);
  CHECK(names.size() == 11);
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(devices.contains(name));
    const auto file = folder / (name + ".json");
    const Profile profile = read_profile(file);
    CHECK(profile.row_count() > 0);
    CHECK((profile_text(profile) == read_text_file(file, 16_MiB)));
    for (const KernelTime& row : profile.kernels) {
      CHECK(row.device == name);
      CHECK(kernel_with({row.kernel, row.shape}));
    }
    for (const TransferTime& row : profile.transfers) CHECK(row.device == name);
  }
}

TEST_CASE("what is no file is refused with its name") {
  check_unreadable_files([](const auto& file) { read_profile(file); });
}

}  // namespace meshwright
