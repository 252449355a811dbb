#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "costmodel/base/presets.h"
#include "costmodel/model/model_costs.h"
#include "costmodel/model/model_name.h"

namespace meshwright {
namespace {

double cpu_ms() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// From the preset's name to the numbers, the best of a few times.
double profile_ms(const std::string& name) {
  constexpr int kTimes = 3;
  double best = 1e300;
  for (int i = 0; i < kTimes; ++i) {
    const double start = cpu_ms();
    const OpGraph graph = read_model(name, MESHWRIGHT_DATA);
    model_costs(make_model(graph), {.sequence = graph.longest_sequence.value_or(4096)});
    best = std::min(best, cpu_ms() - start);
  }
  return best;
}

void print_all() {
  std::string slowest;
  double slowest_ms = 0;
  for (const std::string& name : preset_names(MESHWRIGHT_DATA "/models")) {
    const double ms = profile_ms(name);
    fmt::print("{:20} {:6.1f} ms\n", name, ms);
    if (ms > slowest_ms) std::tie(slowest, slowest_ms) = std::pair(name, ms);
  }
  fmt::print("slowest: {}, {:.1f} ms of CPU time\n", slowest, slowest_ms);
}

}  // namespace
}  // namespace meshwright

int main() { meshwright::print_all(); }
