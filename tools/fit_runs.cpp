// Fits the few numbers of data/fits.json and data/software.json that kernel tables do not give to
// the scored runs of data/published/runs.csv, and prints what each source's error would be had the
// source not been there.
//
//   cmake --build --preset release --target fit_runs
//   build/release/tools/fit_runs [--write] [--leave-out] [--only SOURCE]... [--most N]
//   [--rounds N]

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "costmodel/base/json_input.h"
#include "costmodel/base/write_file.h"
#include "simulator/validation/validation.h"

namespace meshwright {
namespace {

const std::filesystem::path kData = MESHWRIGHT_DATA;

// A number that is fitted, as its logarithm. `owner` is a device fit or a software.
struct Parameter {
  std::string owner, name;
  double least = 0, most = 0;
};
const std::vector<Parameter> kParameters = {
    {"a100", "sustained", 0.6, 1.0},
    {"h100", "sustained", 0.5, 1.0},
    {"b200", "sustained", 0.5, 1.0},
    {"megatron-lm", "row_passes", 0.5, 4},
    {"megatron-core", "row_passes", 0.5, 4},
    {"fsdp", "row_passes", 0.5, 4},
    {"deepspeed", "row_passes", 0.5, 4},
    {"megatron-lm", "dispatch_s", 2e-6, 200e-6},
    {"megatron-core", "dispatch_s", 2e-6, 200e-6},
    {"fsdp", "dispatch_s", 2e-6, 200e-6},
    {"deepspeed", "dispatch_s", 2e-6, 200e-6},
    {"megatron-lm", "kernel_gap_s", 1e-7, 100e-6},
    {"megatron-core", "kernel_gap_s", 1e-7, 100e-6},
    {"fsdp", "kernel_gap_s", 1e-7, 100e-6},
    {"deepspeed", "kernel_gap_s", 1e-7, 100e-6},
    {"megatron-lm", "step_s", 1e-3, 0.2},
    {"fsdp", "step_s", 1e-3, 0.2},
    {"deepspeed", "step_s", 1e-3, 0.5},
    {"megatron-lm", "attention_share", 0.4, 1.0},
    {"fsdp", "attention_share", 0.4, 1.0},
    {"deepspeed", "attention_share", 0.4, 1.0},
};

struct State {
  Fits fits;
  std::vector<Software> software;
};

double& number(State& state, const Parameter& parameter) {
  for (DeviceFit& fit : state.fits.devices) {
    if (fit.name == parameter.owner) return fit.sustained;
  }
  for (Software& software : state.software) {
    if (software.name != parameter.owner) continue;
    if (parameter.name == "row_passes") return software.prices.row_passes;
    if (parameter.name == "dispatch_s") return software.step.dispatch_s;
    if (parameter.name == "kernel_gap_s") return software.prices.kernel_gap_s;
    if (parameter.name == "attention_share") return software.prices.attention_share;
    return software.step.step_s;
  }
  throw std::logic_error("no such parameter: " + parameter.owner + " " + parameter.name);
}

// The kinds of numbers. Those of one kind belong to different owners, so a run depends on at most
// one of each.
const std::vector<std::string> kKinds = {"sustained",  "row_passes",   "attention_share",
                                         "dispatch_s", "kernel_gap_s", "step_s"};

// A run near a state: the logarithm of its predicted time and how much that grows with the
// logarithm of each kind of number.
struct Slopes {
  std::string source, device_fit, software;
  double measured = 0, predicted = 0;  // logarithms
  std::vector<double> slope;           // by kKinds
};

bool concerns(const Parameter& parameter, const Slopes& run) {
  return parameter.owner == run.device_fit || parameter.owner == run.software;
}

std::size_t kind_of(const Parameter& parameter) {
  return static_cast<std::size_t>(std::ranges::find(kKinds, parameter.name) - kKinds.begin());
}

// Whose numbers are fitted.
const std::string& owner_of(const Software& software) {
  return software.like.empty() ? software.name : software.like;
}

// The run's software with the fitted numbers of the state.
Software software_of(const RunPlan& run, const State& state) {
  const Software& fitted = *find_software(state.software, owner_of(run.software));
  Software software = run.software;
  software.prices.row_passes = fitted.prices.row_passes;
  software.prices.attention_share = fitted.prices.attention_share;
  software.step.dispatch_s = fitted.step.dispatch_s;
  software.prices.kernel_gap_s = fitted.prices.kernel_gap_s;
  software.step.step_s = fitted.step.step_s;
  return software;
}

constexpr double kProbe = 1.2;

State probed(State state, const std::string& kind) {
  for (const Parameter& parameter : kParameters) {
    if (parameter.name == kind) number(state, parameter) *= kProbe;
  }
  return state;
}

Slopes slopes_of(const PublishedRun& run, const RunPlan& plan, const State& state) {
  const LoweredRun lowered = std::get<LoweredRun>(lower_run(plan, state.fits));
  const auto log_time = [&](const State& at) {
    return std::log(predict_step(lowered, at.fits, software_of(plan, at)).value());
  };
  const std::string& device = plan.cluster.node_types.front().device.name;
  const DeviceFit* fit = find_fit(state.fits, device);
  Slopes slopes{.source = source_of(run),
                .device_fit = fit ? fit->name : "",
                .software = owner_of(plan.software),
                .measured = std::log(run.step->value()),
                .predicted = log_time(state)};
  for (const std::string& kind : kKinds) {
    slopes.slope.push_back((log_time(probed(state, kind)) - slopes.predicted) / std::log(kProbe));
  }
  return slopes;
}

// By how much each number of kParameters was multiplied, as logarithms.
using Shift = std::vector<double>;

double log_error(const Slopes& run, const Shift& shift) {
  double predicted = run.predicted;
  for (std::size_t p = 0; p < kParameters.size(); ++p) {
    if (shift[p] != 0 && concerns(kParameters[p], run)) {
      predicted += run.slope[kind_of(kParameters[p])] * shift[p];
    }
  }
  return predicted - run.measured;
}

using Errors = std::map<std::string, std::vector<double>>;

Errors errors_by_source(const std::vector<Slopes>& runs, const Shift& shift) {
  Errors errors;
  for (const Slopes& run : runs) {
    errors[run.source].push_back(std::exp(log_error(run, shift)) - 1);
  }
  return errors;
}

double mean_size(const std::vector<double>& errors) {
  double sum = 0;
  for (const double error : errors) sum += std::abs(error);
  return sum / static_cast<double>(errors.size());
}

// Sources count by the root of their rows, so that a large one does not drown the others.
double cost(const std::vector<Slopes>& runs, const Shift& shift, const std::string& without) {
  std::map<std::string, std::pair<double, double>> sums;
  for (const Slopes& run : runs) {
    if (run.source == without) continue;
    auto& [sum, count] = sums[run.source];
    sum += std::abs(log_error(run, shift));
    count += 1;
  }
  double total = 0, weights = 0;
  for (const auto& [source, of] : sums) {
    total += of.first / of.second * std::sqrt(of.second);
    weights += std::sqrt(of.second);
  }
  return total / weights;
}

// One number after the other, in steps that shrink, as far as slopes can be trusted.
Shift best_shift(const std::vector<Slopes>& runs, State state, const std::string& without) {
  constexpr double kFarthest = 0.7;
  Shift shift(kParameters.size());
  double best = cost(runs, shift, without);
  for (double step = 0.2; step > 0.002; step *= 0.8) {
    for (std::size_t p = 0; p < kParameters.size(); ++p) {
      const double value = number(state, kParameters[p]);
      for (const double move : {step, -step}) {
        Shift changed = shift;
        changed[p] += move;
        const double moved = value * std::exp(changed[p]);
        const bool allowed = std::abs(changed[p]) <= kFarthest && moved >= kParameters[p].least &&
                             moved <= kParameters[p].most;
        const double tried = allowed ? cost(runs, changed, without) : best;
        if (tried < best) {
          best = tried;
          shift = std::move(changed);
        }
      }
    }
  }
  return shift;
}

void move_numbers(State& state, const Shift& shift) {
  for (std::size_t p = 0; p < kParameters.size(); ++p) {
    number(state, kParameters[p]) *= std::exp(shift[p]);
  }
}

void print_errors(const Errors& errors) {
  for (const auto& [source, of] : errors) {
    double bias = 0;
    for (const double error : of) bias += error / static_cast<double>(of.size());
    fmt::print("  {:16} {:4} runs  mean {:5.1f} %  bias {:+6.1f} %\n", source, of.size(),
               100 * mean_size(of), 100 * bias);
  }
  std::fflush(stdout);
}

std::vector<Slopes> all_slopes(const State& state, const std::vector<std::string>& only,
                               std::size_t most) {
  std::map<std::string, std::vector<PublishedRun>> by_source;
  for (const PublishedRun& run : read_runs(CsvInput::read(kData / "published" / "runs.csv"))) {
    const std::string source = source_of(run);
    const bool wanted = only.empty() || std::ranges::find(only, source) != only.end();
    if (run.scored() && !run.is_narrow() && run.step && wanted) by_source[source].push_back(run);
  }
  std::vector<Slopes> slopes;
  for (const auto& [source, runs] : by_source) {
    const std::size_t stride = std::max<std::size_t>(1, (runs.size() + most - 1) / most);
    for (std::size_t i = 0; i < runs.size(); i += stride) {
      auto expressed = express(runs[i], state.software, kData);
      if (const auto* plan = std::get_if<RunPlan>(&expressed)) {
        slopes.push_back(slopes_of(runs[i], *plan, state));
      }
    }
  }
  return slopes;
}

// Devices that no scored run has are assumed to clock as their next of kin, and higher by the cube
// root of the power that they may take: of a B200 1000 W, B300 1100, GB200 1200, GB300 1400
// (NVIDIA's data sheets).
void assume_clocks(State& state) {
  struct Kin {
    std::string of;
    double power = 1;
  };
  const std::map<std::string, Kin> kin = {{"h200", {"h100"}},
                                          {"b300", {"b200", 1.1}},
                                          {"gb200", {"b200", 1.2}},
                                          {"gb300", {"b200", 1.4}},
                                          {"a100-pcie", {"a100"}}};
  std::map<std::string, double> known;
  for (const DeviceFit& fit : state.fits.devices) known[fit.name] = fit.sustained;
  for (DeviceFit& fit : state.fits.devices) {
    const auto of = kin.find(fit.name);
    if (of == kin.end()) continue;
    const double clock = known.at(of->second.of) * std::cbrt(of->second.power);
    fit.sustained = std::round(clock * 1e4) / 1e4;
  }
}

void write(State state) {
  assume_clocks(state);
  write_text_file(kData / "fits.json", fits_text(state.fits));
  auto json = nlohmann::ordered_json::parse(read_text_file(kData / "software.json", 16_MiB));
  for (auto& entry : json["software"]) {
    if (entry.contains("like")) continue;
    const Software& software = *find_software(state.software, entry["name"].get<std::string>());
    const auto rounded = [](double value) { return std::stod(fmt::format("{:.4g}", value)); };
    entry["row_passes"] = rounded(software.prices.row_passes);
    entry["attention_share"] = rounded(software.prices.attention_share);
    entry["dispatch_s"] = rounded(software.step.dispatch_s);
    entry["kernel_gap_s"] = rounded(software.prices.kernel_gap_s);
    entry["step_s"] = rounded(software.step.step_s);
  }
  write_text_file(kData / "software.json", json.dump(1) + "\n");
}

struct Options {
  bool write = false, leave_out = false;
  std::vector<std::string> only;
  std::size_t most = 1000;
  int rounds = 2;
};

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--write") options.write = true;
    if (word == "--leave-out") options.leave_out = true;
    if (word == "--only" && i + 1 < argc) options.only.emplace_back(argv[++i]);
    if (word == "--most" && i + 1 < argc) options.most = std::stoul(argv[++i]);
    if (word == "--rounds" && i + 1 < argc) options.rounds = std::stoi(argv[++i]);
  }
  return options;
}

void print_numbers(State& state) {
  for (const Parameter& parameter : kParameters) {
    fmt::print("  {:16} {:12} {:.4g}\n", parameter.owner, parameter.name, number(state, parameter));
  }
}

// What errors would be had a source not been there, by the slopes around the fitted numbers.
void print_left_out(const std::vector<Slopes>& runs, const State& state) {
  fmt::print("left out, one source at a time\n");
  for (const auto& [source, errors] : errors_by_source(runs, Shift(kParameters.size()))) {
    print_errors({{source, errors_by_source(runs, best_shift(runs, state, source)).at(source)}});
  }
}

void run(const Options& options) {
  State state{read_fits(kData / "fits.json"), read_software(kData / "software.json")};
  for (int round = 0; round < options.rounds; ++round) {
    const auto runs = all_slopes(state, options.only, options.most);
    fmt::print("{} runs, round {}: before, and after by their slopes\n", runs.size(), round);
    print_errors(errors_by_source(runs, Shift(kParameters.size())));
    if (options.leave_out && round + 1 == options.rounds) print_left_out(runs, state);
    const Shift shift = best_shift(runs, state, "");
    print_errors(errors_by_source(runs, shift));
    move_numbers(state, shift);
    print_numbers(state);
    if (options.write) write(state);
  }
}

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) { meshwright::run(meshwright::options_of(argc, argv)); }
