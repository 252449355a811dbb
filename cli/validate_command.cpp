#include <unistd.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/runs_option.h"
#include "cli/validate_view.h"
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
  RunsOptions runs;
  std::optional<std::string> details;
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

Validation validate(const ValidateOptions& options, const Session& session) {
  const RunsToPredict runs = runs_to_predict(options.runs, session);
  ProgressLine progress(!session.quiet);
  const std::size_t all = runs.ran.size() + runs.failed.size();
  Validation validation;
  validation.ran = predict_runs(runs.ran, runs.settings,
                                [&](std::size_t done, std::size_t) { progress.show(done, all); });
  validation.failed = predict_runs(runs.failed, runs.settings, [&](std::size_t done, std::size_t) {
    progress.show(runs.ran.size() + done, all);
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
  command.text("--runs", options->runs.runs, "A table of runs instead of the shipped one");
  command.text("--out-of-memory", options->runs.out_of_memory,
               "A table of runs that ran out of memory");
  command.repeated("--source", options->runs.sources, "Only runs of this source (may be repeated)");
  command.text("--details", options->details, "Write a CSV file with a line for each run");
  command.text("--fits", options->runs.fits, "Other fits than the shipped ones");
  command.text("--software-file", options->runs.software,
               "Other descriptions of software than the shipped ones");
  command.flag("--markdown", options->markdown, "Print the table as docs/accuracy.md has it");
  add_json_option(command, session);
  command.runs([options, &session] { validate_runs(*options, session); });
}

}  // namespace meshwright
