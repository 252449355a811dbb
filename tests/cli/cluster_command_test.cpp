#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/run_program.h"

namespace meshwright {
namespace {

using Catch::Contains;

std::size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

void check_usage_error(const std::string& arguments, const std::string& problem) {
  const ProgramOutput output = run_program("cluster " + arguments);
  CHECK(output.exit_code == 2);
  CHECK(output.out.empty());
  CHECK_THAT(output.err, Contains(problem));
}

}  // namespace

TEST_CASE("a cluster is shown with totals, levels and the source of each value") {
  const ProgramOutput output = run_program("cluster h100:4x8");
  CHECK(output.exit_code == 0);
  CHECK(output.err.empty());
  CHECK_THAT(output.out, Contains("  devices      32\n  memory       2.5 TiB\n"));
  CHECK_THAT(output.out, Contains("peak bf16    31.65 PFLOP/s"));  // 32 * 989 T
  CHECK_THAT(output.out, Contains("price        not known"));
  CHECK_THAT(output.out, Contains("Node type h100-node: 4 nodes of 8 h100-sxm"));
  CHECK_THAT(output.out, Contains("  nvlink  4 of 8  450 GB/s  declared ["));
  CHECK_THAT(output.out, Contains("[2] NVIDIA H100 data sheet, dense rates\n"));
  CHECK(longest_line(output.out) <= 100);
}

TEST_CASE("the list names every preset within 100 columns") {
  const ProgramOutput output = run_program("cluster --list");
  CHECK(output.exit_code == 0);
  for (const char* name : {"\nv100 ", "\nh100 ", "\ngb200-nvl72 ", "\nmi300x "}) {
    CHECK_THAT(output.out, Contains(name));
  }
  CHECK(longest_line(output.out) <= 100);
  const auto list = nlohmann::json::parse(run_program("cluster --list --json").out);
  CHECK(list.at("presets").size() > 10);
  CHECK(list.at("presets")[0].at("name") == "a100-40");
}

TEST_CASE("the JSON document has plain SI numbers with their origins") {
  const auto cluster = nlohmann::json::parse(run_program("cluster h100:12 --json").out);
  CHECK(cluster.at("devices") == 12);
  CHECK(cluster.at("nodes") == 2);
  CHECK(cluster.at("memory_bytes") == 12 * (80ll << 30));
  CHECK(cluster.at("peak_flops_per_s").at("bf16") == 12 * 989e12);
  CHECK(cluster.at("price_dollars_per_h").is_null());
  CHECK(cluster.at("node_types").size() == 2);
  const auto& levels = cluster.at("levels");
  REQUIRE(levels.size() == 3);
  CHECK(levels[1].at("node_type") == "h100-node (4 of 8 devices)");
  CHECK(levels[2].at("node_type").is_null());
  CHECK(levels[2].at("largest_group_devices") == 12);
  CHECK(levels[2].at("bandwidth_bytes_per_s").at("value") == 50e9);
  CHECK(levels[2].at("bandwidth_bytes_per_s").at("origin") == "assumed");
  CHECK(levels[2].at("latency_s").at("value") == Approx(2.7e-6));
}

TEST_CASE("what names no cluster is a usage error") {
  const std::string give_one =
      "meshwright: give one cluster: a preset (--list shows them), a cluster file, or a shorthand "
      "such as h100:4x8\n";
  check_usage_error("", give_one);
  check_usage_error("h100 --list", give_one);
  check_usage_error("h10", "Did you mean h100?");
  check_usage_error("h100:4x", "expected a shape such as h100:4x8");
  check_usage_error("h100:4x9", "at most 8 devices");
  check_usage_error("h100 h200", "--help shows the usage");
  check_usage_error("\"$(printf '\\377')\" --json", "\"exit_code\":2");
}

TEST_CASE("a bad cluster file has its own exit code") {
  const TemporaryFolder folder;
  const auto file = folder.write("bad.json", "{}");
  const ProgramOutput output = run_program("cluster " + file.string());
  CHECK(output.exit_code == 20);
  CHECK(output.err == "meshwright: " + file.string() + ": the field \"format\" is missing\n");
}

TEST_CASE("one collective is answered as nccl-tests counts it") {
  const std::string command = "cluster h100 --collective all_gather --group 64x8 --bytes \"25 MB\"";
  const auto document = nlohmann::json::parse(run_program(command + " --json").out);
  REQUIRE(document.at("collectives").size() == 1);
  const auto& gather = document.at("collectives")[0];
  CHECK(gather.at("op") == "all_gather");
  CHECK(gather.at("nodes") == 64);
  CHECK(gather.at("devices") == 512);
  CHECK(gather.at("bytes") == 25'000'000);
  const double time = gather.at("time_s");
  CHECK(time > 1e-3);
  CHECK(time < 4e-3);
  // Bus bandwidth: what a device sends, S (n-1)/n, by the time.
  CHECK(gather.at("busbw").get<double>() == Approx(25e6 * 511 / 512 / time));
  CHECK(gather.at("algorithm") == "ring_small");
  CHECK(gather.at("origin") == "fitted");
  CHECK_THAT(run_program(command).out, Contains("all_gather over 64 nodes, 512 devices\n"));
}

TEST_CASE("without a size there is a table, and a profile's times are in it") {
  const ProgramOutput table = run_program("cluster h100:2x8 --collective all_reduce");
  CHECK(table.exit_code == 0);
  CHECK_THAT(table.out, Contains("all_reduce over 2 nodes, 16 devices\n"));
  CHECK_THAT(table.out, Contains("\n  8 ") && Contains("\n  8589934592 "));
  CHECK(longest_line(table.out) <= 100);
  const auto measured = nlohmann::json::parse(
      run_program("cluster h100 --collective all_reduce --bytes 1048576 --profile h100-sxm --json")
          .out);
  CHECK(measured.at("collectives")[0].at("origin") == "measured");
  CHECK(measured.at("collectives")[0].at("algorithm").is_null());
}

TEST_CASE("a collective that cannot be is told why") {
  check_usage_error("h100 --collective scan", "--collective scan: expected all_reduce, all_gather");
  check_usage_error("h100 --collective send --group 64", "--group 64: expected nodes x devices");
  check_usage_error("h100 --collective send --group 1x1", "two devices or more");
  check_usage_error("h100 --collective send --group 2x9", "--group 2x9: a node has 8 devices");
  check_usage_error("h100:4x8 --collective send --group 5x8",
                    "--group 5x8: the cluster has 4 nodes");
  check_usage_error("h100 --collective send --bytes many", "--bytes many: expected an amount");
  check_usage_error("h100 --collective send --bytes 0", "--bytes 0: expected an amount");
  check_usage_error("h100 --bytes 8", "--group and --bytes are of a --collective");
  check_usage_error("h100:1 --collective all_reduce", "one device has nobody to talk to");
}

}  // namespace meshwright
