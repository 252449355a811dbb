#include <catch2/catch.hpp>

#include "tests/standin/small_run.h"

// Level E with what NVIDIA's compiler made of the back end.
namespace meshwright::standin {

TEST_CASE("what NVIDIA's compiler made trains, and launches all kernels itself") {
  const SmallRun run("dp=2,pp=2,zero=1");
  CHECK(!is_noticed(run, run.on_processors(), {.devices = 4, .seed = 2}));
  CHECK(calls_of("cudaLaunchKernel") > 100);
  CHECK(calls_of("__cudaPushCallConfiguration") == calls_of("cudaLaunchKernel"));
}

}  // namespace meshwright::standin
