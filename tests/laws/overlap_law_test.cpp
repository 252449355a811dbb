#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <catch2/catch.hpp>
#include <numeric>
#include <thread>

#include "executor/cpu/cpu_device.h"
#include "executor/process/message_transport.h"
#include "executor/process/shared_streams.h"
#include "executor/waits_across.h"
#include "tests/laws/law_case.h"
#include "tests/laws/training.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

// Calls visit(model, plan) for random plans with transfers.
template <class Visit>
void for_random_plans(int count, std::uint32_t first, Visit visit) {
  for (std::uint32_t seed = first; count > 0; ++seed) {
    const LawCase law_case = random_law_case(seed);
    const Model model = model_of(law_case);
    const auto plan = plan_of(law_case, model);
    if (!plan || devices_of(*plan).size() == 1) continue;
    CAPTURE(seed, choices_of(law_case));
    visit(model, *plan);
    --count;
  }
}

std::int64_t vocabulary_of(const Model& model) {
  for (const Dim& dim : model.dims) {
    if (dim.name == "vocabulary") return dim.size;
  }
  return 0;
}

struct Place {
  std::int64_t start, end;
  bool overlaps(const Place& other) const { return start < other.end && other.start < end; }
};

// Pairs of tasks of different sides that use the same memory for different buffers, and of which
// the second may start before the first is done.
int unordered_pairs(const Program& program, const std::vector<std::size_t>& sides) {
  const Arena device = lay_out_arena(program), host = lay_out_arena(program, Space::Host);
  const auto waits = waits_across(program, device, host, sides);
  const auto place = [&](BufferId id) {
    const Arena& arena = program.buffers[id.index()].space == Space::Host ? host : device;
    const std::int64_t start = arena.offsets[id.index()]->value();
    return Place{start,
                 start + arena_bytes(program.buffers[id.index()], program.precision).value()};
  };
  const auto conflict = [&](const Task& a, const Task& b) {
    for (const BufferId x : program.operands_of(a)) {
      for (const BufferId y : program.operands_of(b)) {
        if (x != y && program.buffers[x.index()].space == program.buffers[y.index()].space &&
            place(x).overlaps(place(y))) {
          return true;
        }
      }
    }
    return false;
  };
  int found = 0;
  // By side, how far every other one is for sure when a side is here: what it waited for, and what
  // that had waited for before.
  const std::size_t count = 1 + (sides.empty() ? 0 : std::ranges::max(sides));
  using Reached = std::vector<std::size_t>;  // by side, the tasks below it are done
  std::vector<Reached> reached(count, Reached(count)), after(program.tasks.size());
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    Reached& here = reached[sides[t]];
    for (const std::size_t wait : waits[t]) {
      for (std::size_t side = 0; side < count; ++side) {
        here[side] = std::max(here[side], after[wait][side]);
      }
    }
    for (std::size_t u = 0; u < t; ++u) {
      if (sides[u] == sides[t] || u < here[sides[u]]) continue;
      if (conflict(program.tasks[u], program.tasks[t])) ++found;
    }
    here[sides[t]] = t + 1;
    after[t] = here;
  }
  return found;
}

// A thread for each device, each with what a process has.
std::vector<double> losses_by_messages(const std::vector<Program>& programs,
                                       std::int64_t vocabulary, std::int64_t steps) {
  const std::size_t count = programs.size();
  std::vector<DeviceId> devices;
  for (const Program& program : programs) devices.push_back(program.device);
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  const SharedMemory made = SharedMemory::make(count);
  const RandomTokens data(13, vocabulary);
  std::vector<std::vector<double>> losses(count);  // of those that have it
  std::barrier all_done(static_cast<std::ptrdiff_t>(count));
  const auto run = [&](std::size_t d) {
    auto peers = all;
    std::erase(peers, d);
    const auto memory =
        std::make_shared<const SharedMemory>(SharedMemory::open(::getpid(), made.number(), count));
    Links links(shared_streams(memory, all, d), peers, count);
    MessageTransport transport({devices, std::vector(count, &links), d}, nullptr);
    CpuDevice device(programs[d], [] { return Seconds(); });
    device.connect(transport);
    Worker worker(programs[d], device, data, {.overlap = true});
    worker.initialize(random_weights(11));
    StepSettings settings = usual_settings();
    for (settings.step = 0; settings.step < steps; ++settings.step) {
      settings.label_share =
          1.0 / static_cast<double>(count_labels(data, programs[d].batch, settings.step));
      const auto loss = worker.run_step(settings).loss;
      if (loss) losses[d].push_back(*loss);
    }
    // What it has sent last may still be on its way, and goes with the thread that sends it.
    all_done.arrive_and_wait();
  };
  std::vector<std::jthread> threads;
  for (std::size_t d = 0; d < count; ++d) threads.emplace_back(run, d);
  threads.clear();
  return *std::ranges::find_if(losses, [](const auto& own) { return !own.empty(); });
}

}  // namespace

TEST_CASE(
    "memory is taken over only when who used it before is done, on two sides and in all lanes") {
  for_random_plans(cases(20, 400), 7000, [](const Model& model, const Plan& plan) {
    for (const Program& program : lower_all(model, plan)) {
      CHECK(unordered_pairs(program, two_sides(program)) == 0);
      CHECK(unordered_pairs(program, lane_sides(program)) == 0);
    }
  });
}

TEST_CASE("messages between processes and transfers beside computing change no bit", "[threads]") {
  for_random_plans(cases(12, 300), 9000, [](const Model& model, const Plan& plan) {
    const auto programs = lower_all(model, plan);
    const std::int64_t vocabulary = vocabulary_of(model);
    const RunResult plain = run_threads(programs, usual_settings(), {.steps = 2},
                                        random_weights(11), RandomTokens(13, vocabulary));
    const auto losses = losses_by_messages(programs, vocabulary, 2);
    for (std::size_t step = 0; step < 2; ++step) CHECK(losses[step] == plain.steps[step].loss);
  });
}

}  // namespace meshwright
