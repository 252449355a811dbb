#include "executor/host_memory.h"

#include <catch2/catch.hpp>

#include "executor/memory_error.h"
#include "tests/bad_files.h"

namespace meshwright {
namespace {

// A /proc and /sys of our own.
struct Machine {
  Machine() {
    std::filesystem::create_directories(folder.path() / "proc/self");
    std::filesystem::create_directories(folder.path() / "sys/fs/cgroup/memory");
    folder.write("proc/meminfo",
                 "MemTotal:       24000000 kB\nMemFree: 1 kB\nMemAvailable:   20000000 kB\n");
  }
  TemporaryFolder folder;
};

}  // namespace

TEST_CASE("memory is what the system has, unless a control group leaves less") {
  const Machine machine;
  const auto root = machine.folder.path();
  const Bytes system(20'000'000LL * 1024);
  CHECK(available_memory(root) == system);
  machine.folder.write("sys/fs/cgroup/memory.max", "max\n");
  machine.folder.write("sys/fs/cgroup/memory.current", "100\n");
  CHECK(available_memory(root) == system);

  SECTION("of the second version") {
    machine.folder.write("sys/fs/cgroup/memory.max", "1000\n");
    CHECK(available_memory(root) == Bytes(900));
    machine.folder.write("sys/fs/cgroup/memory.stat", "anon 7\ninactive_file 40\n");
    CHECK(available_memory(root) == Bytes(940));
    machine.folder.write("sys/fs/cgroup/memory.current", "2000\n");
    CHECK(available_memory(root) == Bytes(0));
  }
  SECTION("of the first") {
    machine.folder.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n");
    machine.folder.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "400\n");
    CHECK(available_memory(root) == Bytes(600));
    machine.folder.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    CHECK(available_memory(root) == system);
  }
}

TEST_CASE("this machine has memory, and no more available than there is") {
  CHECK(available_memory() > 0_B);
  CHECK(available_memory() <= total_memory());
}

TEST_CASE("a run that needs more memory than there is says both numbers") {
  CHECK_NOTHROW(check_memory(5_GiB, 5_GiB));
  CHECK_THROWS_WITH(check_memory(6_GiB, 5_GiB),
                    "out of memory: the devices need 6 GiB together, 5 GiB is available here");
}

}  // namespace meshwright
