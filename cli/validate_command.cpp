#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/validate_view.h"
#include "costmodel/base/input_error.h"
#include "costmodel/base/write_file.h"

namespace meshwright {
namespace {

constexpr auto kValidateFooter =
    "Predicts every published run that can be expressed and says how far off that is. Scored are\n"
    "runs of trust A with known recomputation and precision. Runs that cannot be expressed are\n"
    "named with the reason (--json, --details). The columns of a table are those of\n"
    "data/published/runs.csv; a bad table ends with exit code 20.\n\n"
    "Example: meshwright validate --source simumax-b200";

struct ValidateOptions {
  std::optional<std::string> runs, out_of_memory, details, fits, software;
  std::vector<std::string> sources;
  bool markdown = false;
};

// A line on standard error that is written over, once the work has taken two seconds.
class ProgressLine {
 public:
  explicit ProgressLine(bool wanted) : wanted_(wanted && ::isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() {
    if (shown_) std::cerr << "\r\033[K";
  }
  void show(std::size_t done, std::size_t all) {
    const auto now = std::chrono::steady_clock::now();
    if (!wanted_ || now - start_ < std::chrono::seconds(2) || now - last_ < kPause) return;
    std::cerr << "\rpredicting runs: " << done << " of " << all << std::flush;
    last_ = now;
    shown_ = true;
  }

 private:
  static constexpr auto kPause = std::chrono::milliseconds(100);
  bool wanted_ = false, shown_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), last_;
};

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

// Runs that were read from one file by default are not there when another file is given.
Validation validate(const ValidateOptions& options, const Session& session) {
  const auto published = session.data / "published";
  const ValidationSettings settings{
      .fits = read_fits(options.fits.value_or((session.data / "fits.json").string())),
      .software =
          read_software(options.software.value_or((session.data / "software.json").string())),
      .data = session.data};
  std::vector<PublishedRun> ran, failed;
  if (options.runs || !options.out_of_memory) {
    ran = wanted_runs(options.runs.value_or((published / "runs.csv").string()), options.sources);
  }
  if (options.out_of_memory || !options.runs) {
    failed = wanted_runs(options.out_of_memory.value_or((published / "out_of_memory.csv").string()),
                         options.sources);
  }
  if (ran.empty() && failed.empty()) {
    if (!options.sources.empty()) {
      throw UsageError(fmt::format("--source {}: no run of the tables has a source of that name",
                                   printable(fmt::format("{}", fmt::join(options.sources, ", ")))));
    }
    const std::string file = options.runs.value_or(options.out_of_memory.value_or("the table"));
    throw InputError(fmt::format("{}: has no runs below its header", printable(file)));
  }
  ProgressLine progress(!session.quiet);
  const std::size_t all = ran.size() + failed.size();
  Validation validation;
  validation.ran =
      predict_runs(ran, settings, [&](std::size_t done, std::size_t) { progress.show(done, all); });
  validation.failed = predict_runs(failed, settings, [&](std::size_t done, std::size_t) {
    progress.show(ran.size() + done, all);
  });
  return validation;
}

void validate_runs(const ValidateOptions& options, const Session& session) {
  const Validation validation = validate(options, session);
  if (options.details) write_text_file(*options.details, validation_csv(validation));
  if (session.json) return print_json(validation_json(validation));
  print_text(validation_text(validation, options.markdown));
}

}  // namespace

void add_validate_command(Command& program, Session& session) {
  Command command =
      program.subcommand("validate", "Compares predictions with published runs", kValidateFooter);
  const auto options = std::make_shared<ValidateOptions>();
  command.text("--runs", options->runs, "A table of runs instead of the shipped one");
  command.text("--out-of-memory", options->out_of_memory, "A table of runs that ran out of memory");
  command.repeated("--source", options->sources, "Only runs of this source (may be repeated)");
  command.text("--details", options->details, "Write a CSV file with a line for each run");
  command.text("--fits", options->fits, "Other fits than the shipped ones");
  command.text("--software-file", options->software,
               "Other descriptions of software than the shipped ones");
  command.flag("--markdown", options->markdown, "Print the table as docs/accuracy.md has it");
  add_json_option(command, session);
  command.runs([options, &session] { validate_runs(*options, session); });
}

}  // namespace meshwright
