#pragma once

#include <QObject>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/compared_step.h"
#include "gui/asked_search.h"
#include "gui/found_tasks.h"
#include "gui/history.h"
#include "gui/jobs.h"
#include "gui/plan_detail.h"
#include "gui/plan_filter.h"
#include "gui/plan_rows.h"
#include "gui/search_run.h"
#include "gui/session_file.h"
#include "gui/time_axis.h"
#include "gui/timeline_lanes.h"
#include "simulator/report/knob_prices.h"
#include "simulator/report/predict.h"
#include "simulator/report/trace_parts.h"
#include "simulator/validation/validation.h"

namespace meshwright {

// A timeline that was measured or saved.
struct TracedStep {
  std::string name;  // of its file
  Trace trace;
  TimelineLanes lanes;
};

// A stretch of time of a device that is looked at by itself.
struct TimeRange {
  bool predicted = true;   // else of the trace
  std::size_t device = 0;  // of TimelineLanes::devices
  std::int64_t from = 0, to = 0;
  friend bool operator==(const TimeRange&, const TimeRange&) = default;
};

// How predictions of published runs compare with what was measured, as far as it is known.
struct RunsCompared {
  std::string device;              // runs on it are looked at; empty: on any
  std::vector<RunOutcome> runs;    // with a measured step
  std::size_t all = 0;             // that there are to be
  std::optional<Accuracy> scored;  // of `runs`
};

// What a person can undo: not what was computed.
struct Look {
  Inputs inputs;
  std::string filter;
  std::vector<PlanChoices> marked;
  std::vector<std::string> pinned;
  std::optional<TimeAxis> time;  // none: all of the step, however long that is
  friend bool operator==(const Look&, const Look&) = default;
};

// The one place where views meet: what was asked, what came of it, what is selected, filtered,
// marked and looked at. A view changes the session and redraws by its signals; no view knows
// another.
class GuiSession : public QObject {
  Q_OBJECT
 public:
  explicit GuiSession(std::filesystem::path data);
  ~GuiSession() override;

  const Session& command_session() const { return session_; }
  const Inputs& inputs() const { return inputs_; }
  void set_inputs(Inputs inputs);

  // Reads what the inputs name and searches. What is there already stays until plans come.
  void start_search();
  void stop_search();
  const SearchState& search() const { return search_; }
  const std::shared_ptr<const AskedSearch>& asked() const { return asked_; }

  const std::vector<PlanRow>& rows() const { return rows_; }
  const std::vector<PlanColumn>& columns() const { return columns_; }
  // Whether choices that are the same for all plans have a column too.
  bool every_column() const { return every_column_; }
  void set_every_column(bool every);
  // Memory of a device, as far as plans may use it.
  Bytes limit() const { return limit_; }

  const std::string& filter_text() const { return filter_text_; }
  const PlanFilter& filter() const { return filter_; }
  void set_filter(const std::string& text);
  const PlanOrder& order() const { return order_; }
  void set_order(PlanOrder order);
  const std::vector<std::uint32_t>& visible() const { return visible_; }

  const std::optional<std::uint32_t>& selected() const { return selected_; }
  void select(std::optional<std::uint32_t> row);
  // Of the selected plan; none: nothing is selected, or it is still being played.
  const std::shared_ptr<const PlanDetail>& detail() const { return detail_; }
  // Other choices for it; none: still being priced.
  const std::shared_ptr<const std::vector<KnobPrice>>& knobs() const { return knobs_; }
  // Plays a plan that no search found, after others that were asked for before: a short form, which
  // becomes a row, or a file.
  void try_plan(const std::string& name, bool mark = false);

  // None: no trace is open.
  const std::shared_ptr<const TracedStep>& traced() const { return traced_; }
  void open_trace(const std::string& file);

  // Rows that are compared, at most four.
  const std::vector<std::uint32_t>& marked() const { return marked_; }
  void toggle_mark(std::uint32_t row);
  const std::vector<std::shared_ptr<const PlanDetail>>& compared() const { return compared_; }

  const TimeAxis& time() const { return time_; }
  // All of the prediction and of the trace.
  TimeAxis whole_time() const;
  void set_time(TimeAxis time);
  // None: nothing is measured.
  const std::optional<TimeRange>& range() const { return range_; }
  void set_range(std::optional<TimeRange> range);
  // What its device does in it; none: still being added up.
  const std::shared_ptr<const std::vector<KindTime>>& range_times() const { return range_times_; }

  // Lanes that stay at the top, as lane_name has them.
  const std::vector<std::string>& pinned() const { return pinned_; }
  void toggle_pin(const std::string& lane);

  // Looks for tasks by their names; empty: for none.
  void find_tasks(const std::string& letters);
  const std::shared_ptr<const FoundTasks>& found() const { return found_; }

  // Predicts published runs on a device, or on any.
  void compare_runs(const std::string& device);
  void stop_comparing_runs();
  bool comparing_runs() const { return runs_job_.busy(); }
  const RunsCompared& runs() const { return runs_; }

  // Reads what is to be opened beside the window, one after the other; what `read` returns is done
  // here. One that fails is a problem, and those after it are not read.
  void open(std::function<Job::Piece()> read);
  // Names of files that were opened, the last one first.
  const std::vector<std::string>& recent() const { return recent_; }
  void add_recent(const std::string& name);

  // What is there again the next time, but for the window's own.
  SavedSession saved() const;
  void restore(const SavedSession& session);

  // A task of the prediction, or of the trace.
  TracedTask task_named(bool predicted, std::size_t device, std::uint32_t task) const;

  // Whose memory is looked at, of the report's devices, and when: at first the fullest at its peak.
  std::size_t device() const { return device_; }
  void set_device(std::size_t device);
  Seconds moment() const { return moment_; }
  // Emits moment_chosen besides.
  void choose_moment(Seconds moment);

  ThemeChoice theme_choice() const { return theme_choice_; }
  void set_theme_choice(ThemeChoice choice);
  // What the desktop has, which counts where it is followed.
  void set_desktop_dark(bool dark);
  bool dark() const {
    return theme_choice_ == ThemeChoice::Follow ? desktop_dark_
                                                : theme_choice_ == ThemeChoice::Dark;
  }

  void undo();
  void redo();

  // What went wrong last, as the command line says it; empty: nothing.
  const std::string& problem() const { return problem_; }
  ExitCode problem_code() const { return problem_code_; }
  void report_problem(const std::string& text, ExitCode code = ExitCode::Usage);

  // Whether no work is under way.
  bool idle() const;

 Q_SIGNALS:
  void inputs_changed();
  void search_changed();
  void rows_changed();     // other rows, columns or limit
  void visible_changed();  // filter or order
  void selection_changed();
  void detail_changed();
  void traced_changed();
  void knobs_changed();
  void marks_changed();
  void compared_changed();
  void time_changed();
  void device_changed();  // or the moment
  void moment_chosen();
  void range_changed();
  void pins_changed();
  void found_changed();
  void runs_changed();
  void recent_changed();
  void theme_changed();
  void problem_changed();
  void became_idle();

 private:
  Look look() const;
  void remember();
  void go_to(const Look* look);
  Job::Failed reporter();
  void settle();
  void take_asked(std::shared_ptr<const AskedSearch> asked);
  void take_more(std::vector<PlanRow> more, const SearchState& state);
  void take_result(std::vector<PlanRow> rows, const SearchState& state);
  void show_rows();
  void load_detail();
  void load_knobs();
  void load_compared();
  void take_detail(std::shared_ptr<const PlanDetail> detail);
  void try_next();
  void open_next();
  void take_tried(const std::shared_ptr<const PlanDetail>& detail, bool mark);
  void add_mark(std::uint32_t row);
  void load_range();
  void find_again();
  void take_runs(std::vector<RunOutcome> more);

  // A plan that is to be played.
  struct ToTry {
    std::string name;
    bool mark = false;
  };

  Session session_;
  Inputs inputs_;
  SearchState search_;
  std::shared_ptr<const AskedSearch> asked_;
  std::vector<PlanRow> rows_;
  std::vector<PlanColumn> columns_;
  Bytes limit_;
  std::string filter_text_;
  PlanFilter filter_;
  PlanOrder order_;
  std::vector<std::uint32_t> visible_;
  std::optional<std::uint32_t> selected_;
  std::shared_ptr<const PlanDetail> detail_;
  std::shared_ptr<const std::vector<KnobPrice>> knobs_;
  std::deque<ToTry> to_try_;                         // the first is being played
  std::deque<std::function<Job::Piece()>> to_open_;  // the first is being read
  std::shared_ptr<const TracedStep> traced_;
  std::size_t device_ = 0;
  Seconds moment_;
  std::vector<std::uint32_t> marked_;
  std::vector<PlanChoices> kept_marks_;  // of the search before, until this one has ended
  std::vector<std::shared_ptr<const PlanDetail>> compared_;
  TimeAxis time_;
  std::optional<TimeRange> range_;
  std::shared_ptr<const std::vector<KindTime>> range_times_;
  std::vector<std::string> pinned_;
  std::shared_ptr<const FoundTasks> found_;
  std::string letters_;  // that are looked for
  RunsCompared runs_;
  std::vector<std::string> recent_;
  bool every_column_ = false;
  ThemeChoice theme_choice_ = ThemeChoice::Follow;
  bool desktop_dark_ = false;
  std::string problem_;
  ExitCode problem_code_ = ExitCode::Usage;
  History<Look> history_{Look{}};
  bool going_back_ = false;
  bool followed_ = true;  // the best so far is selected until a person selects
  // Last: their threads end before anything that they report to.
  Job search_job_, detail_job_, knobs_job_, compare_job_, trace_job_, range_job_, find_job_,
      runs_job_, open_job_;
};

}  // namespace meshwright
