#include "simulator/price_origins.h"

#include <vector>

namespace meshwright {
namespace {

// Equal kernels and transfers of a program are stored once, so each is priced once.
void add_program(const Program& program, const CostModel& costs,
                 std::map<PriceOrigin, double>& seconds) {
  std::vector<double> kernels(program.kernels.size()), transfers(program.transfers.size());
  for (const Task& task : program.tasks) {
    ++(task.kind == TaskKind::Kernel ? kernels : transfers)[task.what];
  }
  const auto add = [&](const Price& price, double times) {
    seconds[price.origin] += price.time.value() * times;
  };
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    add(costs.kernel(program.kernels[i], program.precision, program.device), kernels[i]);
  }
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    add(costs.transfer(program.transfers[i], program.precision), transfers[i]);
  }
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
