#include "simulator/report/price_origins.h"

#include <vector>

namespace meshwright {
namespace {

// How often the tasks of a kind name each of `count` things.
std::vector<double> uses(const Program& program, TaskKind kind, std::size_t count) {
  std::vector<double> times(count);
  for (const Task& task : program.tasks) {
    if (task.kind == kind) ++times[task.what];
  }
  return times;
}

// Equal kernels, transfers and copies of a program are stored once, so each is priced once.
void add_program(const Program& program, const CostModel& costs,
                 std::map<PriceOrigin, double>& seconds) {
  const auto add = [&](TaskKind kind, const auto& things, const auto& price_of) {
    const std::vector<double> times = uses(program, kind, things.size());
    for (std::size_t i = 0; i < things.size(); ++i) {
      const Price price = price_of(things[i]);
      seconds[price.origin] += price.time.value() * times[i];
    }
  };
  add(TaskKind::Kernel, program.kernels, [&](const Kernel& kernel) {
    return costs.kernel(kernel, program.precision, program.device);
  });
  add(TaskKind::Transfer, program.transfers,
      [&](const Transfer& transfer) { return costs.transfer(transfer, program.precision); });
  add(TaskKind::Copy, program.copies, [&](const HostCopy& copy) {
    return costs.host_copy(copy, program.precision, program.device);
  });
}

}  // namespace

std::map<PriceOrigin, double> price_origins(std::span<const Program> programs,
                                            const CostModel& costs) {
  std::map<PriceOrigin, double> shares;
  for (const Program& program : programs) add_program(program, costs, shares);
  double all = 0;
  for (const auto& [origin, seconds] : shares) all += seconds;
  for (auto& [origin, seconds] : shares) seconds = all > 0 ? seconds / all : 0;
  return shares;
}

}  // namespace meshwright
