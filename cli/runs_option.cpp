#include "cli/runs_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

std::vector<PublishedRun> wanted_runs(const std::filesystem::path& file,
                                      const std::vector<std::string>& sources) {
  std::vector<PublishedRun> runs;
  for (PublishedRun& run : read_runs(CsvInput::read(file))) {
    const std::string source = source_of(run);
    const auto named = [&](const std::string& name) {
      return source == name || source == name + "-oom";
    };
    if (sources.empty() || std::ranges::any_of(sources, named)) runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace

RunsToPredict runs_to_predict(const RunsOptions& options, const Session& session) {
  const auto published = session.data / "published";
  RunsToPredict result{
      .settings = {.fits = read_fits(options.fits.value_or((session.data / "fits.json").string())),
                   .software = read_software(
                       options.software.value_or((session.data / "software.json").string())),
                   .data = session.data}};
  if (options.runs || !options.out_of_memory) {
    result.ran =
        wanted_runs(options.runs.value_or((published / "runs.csv").string()), options.sources);
  }
  if (options.out_of_memory || !options.runs) {
    result.failed =
        wanted_runs(options.out_of_memory.value_or((published / "out_of_memory.csv").string()),
                    options.sources);
  }
  if (result.ran.empty() && result.failed.empty()) {
    if (!options.sources.empty()) {
      throw UsageError(fmt::format("--source {}: no run of the tables has a source of that name",
                                   printable(fmt::format("{}", fmt::join(options.sources, ", ")))));
    }
    const std::string file = options.runs.value_or(options.out_of_memory.value_or("the table"));
    throw InputError(fmt::format("{}: has no runs below its header", printable(file)));
  }
  return result;
}

}  // namespace meshwright
