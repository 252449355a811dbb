// Work that is asked for beside the search: files, traces, what a stretch of time is spent on,
// tasks by their names, published runs.
#include <algorithm>
#include <cctype>

#include "cli/runs_option.h"
#include "costmodel/base/json_input.h"
#include "gui/session.h"

namespace meshwright {
namespace {

constexpr Bytes kLargestTrace = 1_GiB;
constexpr std::size_t kRunsAtOnce = 4;  // before they are shown

Seconds in_seconds(std::int64_t nanoseconds) {
  return Seconds(static_cast<double>(nanoseconds) / 1e9);
}

// A device's name begins with its family's, as tables of runs have it: "h100-sxm" and "H100".
bool is_of_family(const std::string& device, const std::string& family) {
  if (device.size() < family.size()) return false;
  const bool same = std::equal(family.begin(), family.end(), device.begin(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  });
  return same && (device.size() == family.size() ||
                  !std::isalnum(static_cast<unsigned char>(device[family.size()])));
}

}  // namespace

void GuiSession::open(std::function<Job::Piece()> read) {
  to_open_.push_back(std::move(read));
  if (to_open_.size() == 1) open_next();
}

void GuiSession::open_next() {
  if (to_open_.empty()) return;
  open_job_.start(
      [this, read = to_open_.front()](const std::stop_token&, const Job::Deliver&) {
        return [this, take = read()] {
          take();
          to_open_.pop_front();
          open_next();
        };
      },
      [this](const Ending& ending) {
        to_open_.clear();
        report_problem(ending.message, ending.code);
      });
}

void GuiSession::open_trace(const std::string& file) {
  trace_job_.start(
      [this, file](const std::stop_token&, const Job::Deliver&) {
        auto traced = std::make_shared<TracedStep>();
        traced->name = file;
        traced->trace = read_trace(JsonInput::read(file, kLargestTrace));
        traced->lanes = lanes_of(traced->trace);
        return [this, traced] {
          const bool was_whole = !detail_ || time_ == whole_time();
          traced_ = traced;
          if (range_ && !range_->predicted) set_range(std::nullopt);
          found_.reset();
          time_ = was_whole ? whole_time() : within(time_, whole_time().length);
          Q_EMIT traced_changed();
          Q_EMIT time_changed();
          find_again();
        };
      },
      reporter());
}

void GuiSession::set_range(std::optional<TimeRange> range) {
  if (range == range_) return;
  range_ = range;
  range_times_.reset();
  Q_EMIT range_changed();
  load_range();
}

void GuiSession::load_range() {
  if (!range_) return range_job_.cancel();
  range_job_.start(
      [this, range = *range_, detail = detail_, traced = traced_](const std::stop_token&,
                                                                  const Job::Deliver&) {
        const TaskSpan span{in_seconds(range.from), in_seconds(range.to)};
        const TracedDevice device =
            range.predicted ? cut_to(detail->prediction.represented.programs[range.device],
                                     detail->prediction.timeline.devices[range.device], span)
                            : cut_to(traced->trace.devices[range.device], span);
        auto times = std::make_shared<const std::vector<KindTime>>(
            kind_times(device, span.finish - span.start));
        return [this, times] {
          range_times_ = times;
          Q_EMIT range_changed();
        };
      },
      reporter());
}

void GuiSession::find_tasks(const std::string& letters) {
  if (letters == letters_) return;
  letters_ = letters;
  find_again();
}

void GuiSession::find_again() {
  if (letters_.empty()) {
    find_job_.cancel();
    found_.reset();
    Q_EMIT found_changed();
    return;
  }
  find_job_.start(
      [this, letters = letters_, detail = detail_, traced = traced_](const std::stop_token&,
                                                                     const Job::Deliver&) {
        auto found = std::make_shared<FoundTasks>();
        found->letters = letters;
        if (detail) {
          found->predicted =
              matching_tasks(detail->lanes, detail->prediction.represented.programs, letters);
          add_places(*found, detail->lanes, found->predicted, true);
        }
        if (traced) {
          found->traced = matching_tasks(traced->lanes, traced->trace, letters);
          add_places(*found, traced->lanes, found->traced, false);
        }
        return [this, found] {
          found_ = found;
          Q_EMIT found_changed();
        };
      },
      reporter());
}

void GuiSession::compare_runs(const std::string& device) {
  runs_ = {.device = device, .runs = {}, .all = 0, .scored = {}};
  runs_job_.start(
      [this, device, session = session_](const std::stop_token& stop, const Job::Deliver& deliver) {
        RunsToPredict wanted = runs_to_predict({}, session);
        std::erase_if(wanted.ran, [&](const PublishedRun& run) {
          return !run.scored() || !run.step || (!device.empty() && !is_of_family(device, run.gpu));
        });
        deliver([this, all = wanted.ran.size()] { runs_.all = all; });
        for (std::size_t i = 0; i < wanted.ran.size() && !stop.stop_requested(); i += kRunsAtOnce) {
          const std::size_t end = std::min(wanted.ran.size(), i + kRunsAtOnce);
          const std::vector<PublishedRun> some(
              wanted.ran.begin() + static_cast<std::ptrdiff_t>(i),
              wanted.ran.begin() + static_cast<std::ptrdiff_t>(end));
          deliver(
              [this, more = predict_runs(some, wanted.settings, {}, stop)] { take_runs(more); });
        }
        return [this] { Q_EMIT runs_changed(); };
      },
      reporter());
  Q_EMIT runs_changed();
}

void GuiSession::stop_comparing_runs() { runs_job_.stop(); }

void GuiSession::take_runs(std::vector<RunOutcome> more) {
  std::ranges::move(more, std::back_inserter(runs_.runs));
  runs_.scored = score(runs_.runs, {});
  Q_EMIT runs_changed();
}

}  // namespace meshwright
