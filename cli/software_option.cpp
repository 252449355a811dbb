#include "cli/software_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/plan_option.h"
#include "cli/text_table.h"
#include "costmodel/base/input_error.h"
#include "simulator/report/predict.h"

namespace meshwright {

Software software_from_option(const std::string& name, const Session& session) {
  const std::vector<Software> all = read_software(session.data / "software.json");
  if (name == kNoSoftware) {
    Software none = assumed_on_gpus(*find_software(all, kOwnSoftware));
    none.name = kNoSoftware;
    return none;
  }
  if (const Software* found = find_software(all, name)) return *found;
  std::vector<std::string> names = {kNoSoftware};
  for (const Software& software : all) {
    names.push_back(software.name);
    names.insert(names.end(), software.also.begin(), software.also.end());
  }
  throw UsageError(
      fmt::format("--software {}: expected one of {}", printable(name), fmt::join(names, ", ")));
}

// By what the devices compute in: V100 and T4 are from before bf16, and so is their software; what
// knows neither is no GPU.
ChosenSoftware usual_software(const Cluster& cluster) {
  const std::string why = fmt::format("chosen for {}; --software list shows others",
                                      printable(cluster.node_types.front().device.name));
  switch (usual_precision(cluster)) {
    case Precision::BF16:
      return {"megatron-core", why};
    case Precision::FP16:
      return {"megatron-lm", why};
    default:
      return {kNoSoftware, why};
  }
}

std::string software_list(const Session& session) {
  std::vector<std::vector<std::string>> rows = {
      {kNoSoftware, "none on GPUs: our kernels, no launch times, rules of thumb for memory"}};
  for (const Software& software : read_software(session.data / "software.json")) {
    std::string about = software.sources;
    if (!software.also.empty()) about += fmt::format(" (also {})", fmt::join(software.also, ", "));
    rows.push_back({software.name, std::move(about)});
  }
  return table_text(rows, 0);
}

}  // namespace meshwright
