#include "costmodel/profile/nccl_tests.h"

#include <catch2/catch.hpp>

#include "costmodel/base/input_error.h"
#include "tests/bad_files.h"

namespace meshwright {
namespace {

const NcclTestsSettings kSettings{.device = "h100-sxm", .date = "2026-03-04"};

// The layout of nccl-tests 2.17; the numbers are made up.
const std::string kText = R"(# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 0 maxBytes 4096 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   6899 on      alpha device  0 [0000:04:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   6900 on      alpha device  1 [0000:05:00] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid   6733 on       beta device  0 [0000:04:00] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid   6734 on       beta device  1 [0000:05:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
           0             0     float     sum      -1     0.15    0.00    0.00       0     0.10    0.00    0.00       0
alpha: NCCL INFO something about 8 channels
        2048           512     float     sum      -1    12.50    0.16    0.25       0    11.90    0.17    0.26       0
        4096          1024     float     sum      -1    1.3e1    0.32    0.47     N/A    12.10    0.34    0.51     N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.36
)";

const std::string kJson =
    R"({"version":1,"start_time":"x","args":["/opt/build/all_gather_perf","-b","8"],
"env":["A=B"],"nccl_version":22903,"config":{"nthreads":1,"ngpus":2,"iterations":50,"devices":[
{"rank":0,"group":0,"pid":1,"hostname":"a","device":0,"device_hex":"0","device_info":"NVIDIA B200"},
{"rank":1,"group":0,"pid":1,"hostname":"a","device":1,"device_hex":"1","device_info":"NVIDIA B200"}]},
"results":[
{"size":1024,"count":128,"type":"half","redop":"none","root":"-1","out_of_place":{"time":10.250000,"alg_bw":0.1,"bus_bw":0.05,"nwrong":0.0},"in_place":{"time":9.0,"alg_bw":0.1,"bus_bw":0.05,"nwrong":0.0}},
{"size":2048,"count":256,"type":"half","redop":"none","root":"-1","out_of_place":null,"in_place":{"time":11.5,"alg_bw":"nan","bus_bw":0.05,"nwrong":null}}]})";

}  // namespace

TEST_CASE("the text of nccl-tests becomes transfer times") {
  const Profile profile = parse_nccl_tests(kText, "log", kSettings);
  REQUIRE(profile.provenances.size() == 1);
  CHECK(profile.provenances[0] == Provenance{"NVIDIA H100 80GB HBM3", "NCCL 2.28.7", "nccl-tests"});
  REQUIRE(profile.transfers.size() == 2);  // nothing is measured at size 0
  const TransferTime& first = profile.transfers[0];
  CHECK(first.device == "h100-sxm");
  CHECK(first.kind == TransferKind::AllReduce);
  CHECK(first.place == GroupPlace{4, 2});
  CHECK(first.bytes == 2_KiB);
  CHECK(first.time.value() == Approx(12.5e-6));
  CHECK(first.evidence == Evidence{0, "2026-03-04", 20, {}});
  CHECK(profile.transfers[1].time.value() == Approx(13e-6));
}

TEST_CASE("older text without the test's name or the group needs the kind") {
  std::string text = replaced(kText, "# Collective test starting: all_reduce_perf\n", "");
  CHECK_THROWS_WITH(parse_nccl_tests(text, "log", kSettings),
                    Catch::Contains("log: does not say which test it is of"));
  NcclTestsSettings settings = kSettings;
  settings.kind = TransferKind::ReduceScatter;
  CHECK(parse_nccl_tests(text, "log", settings).transfers[0].kind == TransferKind::ReduceScatter);
  // The first versions had no columns for reduction and root.
  text = replaced(text, "type   redop    root ", "type ");
  text = replaced(text, "float     sum      -1    12.50", "float    12.50");
  text = replaced(text, "float     sum      -1    1.3e1", "float    1.3e1");
  text = replaced(text, "float     sum      -1     0.15", "float     0.15");
  CHECK(parse_nccl_tests(text, "log", settings).transfers[0].time.value() == Approx(12.5e-6));
}

TEST_CASE("the JSON of nccl-tests becomes transfer times") {
  const Profile profile = parse_nccl_tests(kJson, "j.json", kSettings);
  CHECK(profile.provenances[0] == Provenance{"NVIDIA B200", "NCCL 2.29.3", "nccl-tests"});
  REQUIRE(profile.transfers.size() == 2);
  CHECK(profile.transfers[0].kind == TransferKind::AllGather);
  CHECK(profile.transfers[0].place == GroupPlace{2, 1});
  CHECK(profile.transfers[0].bytes == 1_KiB);
  CHECK(profile.transfers[0].time.value() == Approx(10.25e-6));
  CHECK(profile.transfers[0].evidence.repetitions == 50);
  CHECK(profile.transfers[1].time.value() == Approx(11.5e-6));  // in place: there is no other
}

TEST_CASE("what is no usable output of nccl-tests is refused with the reason") {
  const auto refused = [](const std::string& text, const std::string& message) {
    CHECK_THROWS_WITH(parse_nccl_tests(text, "log", kSettings), Catch::Contains(message));
    CHECK_THROWS_AS(parse_nccl_tests(text, "log", kSettings), InputError);
  };
  refused("", "log: expected the output of nccl-tests");
  refused("hello\n# world\n", "log: expected the output of nccl-tests");
  refused("{}", "log: the field \"config\" is missing");
  refused("{\"config\": 3}", "log: config");
  refused(kText.substr(0, kText.find("           0 ")), "log: has no times");
  refused(replaced(kText, "0.25       0", "0.25       3"),
          "log: line 16: the test found wrong results at 2048 bytes");
  refused(replaced(kText, "12.50", "12.5x"), "log: line 16: expected a size and a time");
  refused(replaced(kText, "all_reduce_perf", "hypercube_perf"),
          "log: hypercube_perf measures no transfer that programs have");
  refused(replaced(kText, "all_reduce_perf", "sendrecv_perf"),
          "log: sendrecv among 4 devices: only between 2 it is one transfer");
  refused(replaced(kText, "#  Rank  3", "#  Rang  3"), "log: lists 3 devices on 2 hosts");
  refused(replaced(kJson, "\"nwrong\":0.0", "\"nwrong\":2.0"),
          "log: the test found wrong results at 1024 bytes");
}

}  // namespace meshwright
