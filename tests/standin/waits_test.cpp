#include <catch2/catch.hpp>
#include <iostream>

#include "executor/waits_across.h"
#include "tests/standin/small_run.h"
#include "tests/standin/unordered_uses.h"
#include "tests/test_scale.h"

namespace meshwright::standin {
namespace {

// The waits of a device's program, as a worker has them.
struct LaneWaits {
  explicit LaneWaits(const Program& of)
      : program(of),
        device(lay_out_arena(of)),
        host(lay_out_arena(of, Space::Host)),
        waits(waits_across(of, device, host, lane_sides(of))) {
    for (std::size_t task = 0; task < waits.size(); ++task) {
      for (std::size_t i = 0; i < waits[task].size(); ++i) places.emplace_back(task, i);
    }
  }
  // Whether tasks are unordered that must be ordered, without one of the waits.
  bool matters(std::size_t place) const {
    TaskWaits others = waits;
    const auto [task, i] = places[place];
    others[task].erase(others[task].begin() + static_cast<std::ptrdiff_t>(i));
    return unordered_uses(program, device, host, others).has_value();
  }

  const Program& program;
  Arena device, host;
  TaskWaits waits;
  std::vector<std::pair<std::size_t, std::size_t>> places;  // in the order of the calls
};

}  // namespace

TEST_CASE("an event's wait that is left out is noticed where a lane goes past it") {
  // One device, so that the seed decides everything: lanes to and from the host beside computing.
  const SmallRun run("offload=activations+optimizer");
  const auto programs = lower_all(run.model, run.plan);
  const LaneWaits lanes(programs[0]);
  REQUIRE_FALSE(unordered_uses(lanes.program, lanes.device, lanes.host, lanes.waits));
  const Trained expected = run.on_processors();
  CHECK(!is_noticed(run, expected, {.devices = 1, .seed = 3}));
  const auto count = static_cast<std::int64_t>(lanes.places.size());
  REQUIRE(calls_of("cudaStreamWaitEvent") == 2 * count);  // of two steps
  int matter = 0, noticed = 0, tried = 0;
  for (std::int64_t wait = 0; wait < count; wait += is_full() ? 1 : 1 + count / 8, ++tried) {
    const bool matters = lanes.matters(static_cast<std::size_t>(wait));
    // Not every order of the lanes goes past it.
    constexpr std::uint32_t kOrders = 4;
    bool found = false, past = false;
    for (std::uint32_t seed = 1; !found && seed <= (matters ? kOrders : 1); ++seed) {
      found = is_noticed(run, expected, {.devices = 1, .seed = seed, .ignored_wait = wait + 1});
      past = past || was_overtaken();
    }
    CAPTURE(wait, matters, found, past);
    matter += matters;
    noticed += found;
    CHECK(found == (matters && past));
  }
  std::cout << noticed << " of " << tried << " waits that were left out were noticed, " << matter
            << " matter\n";
  // A few, most at the end of a step, no order of the lanes goes past.
  CHECK(noticed >= 0.9 * matter);
}

}  // namespace meshwright::standin
