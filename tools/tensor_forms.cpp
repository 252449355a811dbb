// Which way to lay out tensor devices is fastest, by model size: on a node with NVLink between all
// devices, on one with NVLink between pairs, and across nodes. Every step is simulated; each form
// has the micro-batch and the recomputation that suit it best.
//
//   cmake --build --preset release --target tensor_forms
//   build/release/tools/tensor_forms > docs/tensor_forms.md

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "costmodel/cluster/cluster_name.h"
#include "costmodel/model/model_name.h"
#include "costmodel/price/software.h"
#include "simulator/report/predict.h"

namespace meshwright {
namespace {

const std::filesystem::path kData = MESHWRIGHT_DATA;
constexpr std::int64_t kSequence = 2048;

struct Machine {
  std::string cluster;
  std::int64_t devices;
  std::vector<std::string> models;
};

struct Form {
  std::string name, choices;
};

// NVLink between all devices of a node, or between pairs.
const std::vector<Machine> kMachines = {
    {"a100-80:1x4", 4, {"gpt3-1.3b", "gpt3-6.7b", "gpt3-13b"}},
    {"a100-80-pcie:1x4", 4, {"gpt3-1.3b", "gpt3-6.7b", "gpt3-13b"}},
    {"a100-80:1x8", 8, {"gpt3-1.3b", "gpt3-6.7b", "gpt3-13b"}},
    {"a100-80-pcie:1x8", 8, {"gpt3-1.3b", "gpt3-6.7b", "gpt3-13b"}},
    {"a100-80:2x8", 16, {"gpt3-1.3b", "gpt3-6.7b", "gpt3-13b"}},
    {"a100-80:8x8", 64, {"gpt3-6.7b", "gpt3-13b", "gpt3-175b"}},
    {"a100-80-pcie:8x8", 64, {"gpt3-6.7b", "gpt3-13b", "gpt3-175b"}},
};

std::vector<Form> forms_on(std::int64_t devices) {
  std::vector<Form> forms = {
      {"1d", fmt::format("tp={}", devices)},
      {"1d with the sequence cut", fmt::format("tp={},sequence_parallel=true", devices)}};
  if (devices != 8) {  // 8 is no square
    forms.push_back({"2d", fmt::format("tp={},tensor=2d", devices)});
    forms.push_back({"2d, SUMMA", fmt::format("tp={},tensor=2d,summa=true", devices)});
  }
  if (devices > 4) {
    forms.push_back(
        {"2.5d", fmt::format("tp={},tensor=2.5d,depth={}", devices, devices == 8 ? 2 : 4)});
  }
  if (devices == 8 || devices == 64) {
    forms.push_back({"3d", fmt::format("tp={},tensor=3d", devices)});
  }
  return forms;
}

struct Best {
  std::string choices;
  Report report;
};

// With which micro-batch a form is fastest; in words why with none.
std::variant<Best, std::string> best_of(const Form& form, std::int64_t batch,
                                        const Setting& setting) {
  std::optional<Best> best;
  std::string why;
  const PlanChoices defaults = choices_of(setting.defaults, Precision::BF16);
  for (std::int64_t micro = 1; micro <= batch; micro *= 2) {
    for (const char* recompute : {"none", "full"}) {
      const PlanChoices choices = parse_plan_choices(
          fmt::format("{},microbatch={},recompute={}", form.choices, micro, recompute), defaults);
      const auto made = plan_of(choices, {batch, kSequence, Precision::BF16}, setting);
      const auto* plan = std::get_if<Plan>(&made);
      if (!plan && why.empty()) why = "cannot be cut so";
      if (!plan) continue;
      why = "does not fit";
      const Report report = predict(*plan, setting).report;
      if (report.fits != Fit::Yes) continue;
      if (!best || report.step < best->report.step) best = {to_text(choices, defaults), report};
    }
  }
  if (!best) return why;
  return *best;
}

void print_rows(const Machine& machine, const std::string& name, const Software& software,
                const Fits& fits) {
  const Model model = make_model(read_model(name, kData));
  const Cluster cluster = find_cluster(machine.cluster, kData);
  const Setting setting = make_setting(model, cluster, software, fits);
  const std::int64_t batch = std::max<std::int64_t>(64, machine.devices);
  const auto forms = forms_on(machine.devices);
  std::vector<std::variant<Best, std::string>> found;
  const auto tokens_of = [&](std::size_t form) {
    const auto* best = std::get_if<Best>(&found[form]);
    return best ? best->report.tokens_per_s : 0.0;
  };
  double most = 0;
  for (const Form& form : forms) {
    found.push_back(best_of(form, batch, setting));
    most = std::max(most, tokens_of(found.size() - 1));
    fmt::print(stderr, "{} {} {}\n", machine.cluster, name, form.name);
  }
  for (std::size_t i = 0; i < forms.size(); ++i) {
    fmt::print("| {} | {} | ", machine.cluster, name);
    if (const auto* why = std::get_if<std::string>(&found[i])) {
      fmt::print("{} | {} | | | |\n", forms[i].name, *why);
      continue;
    }
    const Best& best = std::get<Best>(found[i]);
    const std::string speed_up =
        tokens_of(0) > 0 ? fmt::format("{:.2f}", tokens_of(i) / tokens_of(0)) : "";
    const std::string mark = tokens_of(i) == most ? "**" : "";
    fmt::print("{0}{1}{0} | {2:.0f} | {3:.1f} % | {4} | `{5}` |\n", mark, forms[i].name,
               tokens_of(i), 100 * best.report.mfu, speed_up, best.choices);
  }
}

}  // namespace
}  // namespace meshwright

int main() {
  using namespace meshwright;
  const auto all = read_software(kData / "software.json");
  const auto own = std::ranges::find(all, "meshwright", &Software::name);
  const Software software = assumed_on_gpus(*own);
  const Fits fits = read_fits(kData / "fits.json");
  fmt::print(
      "# Tensor devices in a line, a square, layers of squares and a cube, simulated\n\n"
      "Made by `tools/tensor_forms`: all devices of the cluster share the layers of one replica, "
      "in\n"
      "bf16 with sequences of {}, and as many samples a step as there are devices but at least "
      "64.\n"
      "Every form has the micro-batch and the recomputation (`none` or `full`) with which it is\n"
      "fastest and fits; the fastest form is bold. `of 1d`: times as fast as a plain line, which "
      "is\n"
      "Megatron's first tensor parallelism. Nothing here was measured.\n\n"
      "| cluster | model | form | tokens/s | MFU | of 1d | plan |\n"
      "|---|---|---|---|---|---|---|\n",
      kSequence);
  for (const Machine& machine : kMachines) {
    for (const std::string& model : machine.models) print_rows(machine, model, software, fits);
  }
  return 0;
}
