#include "gui/session.h"

#include <algorithm>

#include "cli/search_view.h"
#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kBatchEvery = std::chrono::milliseconds(120);
constexpr std::size_t kMostCompared = 4;
constexpr Bytes kLargestTrace = 1_GiB;

Bytes limit_of(const AskedSearch& asked) {
  Bytes limit;
  for (const NodeType& node : asked.setting->cluster.node_types) {
    const Bytes own = node.device.memory.value;
    limit = std::max(limit, std::min(asked.question.max_memory.value_or(own), own));
  }
  return limit;
}

SearchState state_of(const SearchProgress& now) {
  SearchState state{.running = true, .counts = now.counts, .best = now.best};
  if (now.best) state.gap = std::max(0.0, 1 - now.bound / *now.best);
  return state;
}

std::optional<std::uint32_t> find_row(const std::vector<PlanRow>& rows,
                                      const PlanChoices& choices) {
  const auto found = std::ranges::find(rows, choices, &PlanRow::choices);
  if (found == rows.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - rows.begin());
}

// A search that hands over what is new every now and then, not with every plan.
class SearchRun {
 public:
  using Take = std::function<void(std::vector<PlanRow>, SearchState)>;
  SearchRun(const AskedSearch& asked, Take more) : asked_(asked), more_(std::move(more)) {}

  SearchResult run(std::stop_token stop) {
    return search(
        asked_.question, asked_.setting->setting, [&](const SearchProgress& now) { look(now); },
        std::move(stop));
  }

 private:
  void look(const SearchProgress& now) {
    const auto time = Clock::now();
    if (time - last_ < kBatchEvery) return;
    last_ = time;
    more_(rows_of(now.candidates.subspan(seen_), now.plans, asked_.question.batch), state_of(now));
    seen_ = now.candidates.size();
  }

  const AskedSearch& asked_;
  Take more_;
  std::size_t seen_ = 0;
  Clock::time_point last_ = Clock::now();
};

SearchState final_state(const AskedSearch& asked, const SearchResult& result, bool stopped) {
  SearchState state{.counts = result.counts, .gap = result.gap, .complete = result.complete};
  if (!result.plans.empty()) state.best = result.plans.front().report.step;
  state.nearest = result.nearest;
  SearchAnswer answer{.result = result, .stopped = stopped && !result.complete};
  // As many as the command line lists.
  if (answer.result.plans.size() > 10) answer.result.plans.resize(10);
  state.text = search_text(
      {*asked.setting, asked.question, asked.search_options.objective, asked.budget, false, false},
      answer);
  return state;
}

}  // namespace

GuiSession::GuiSession(std::filesystem::path data)
    : session_{.data = std::move(data), .quiet = true},
      search_job_(*this, [this] { settle(); }),
      detail_job_(*this, [this] { settle(); }),
      knobs_job_(*this, [this] { settle(); }),
      compare_job_(*this, [this] { settle(); }),
      trace_job_(*this, [this] { settle(); }) {
  history_ = History<Look>(look());
}

GuiSession::~GuiSession() = default;

void GuiSession::set_inputs(Inputs inputs) {
  if (inputs == inputs_) return;
  inputs_ = std::move(inputs);
  remember();
  Q_EMIT inputs_changed();
}

bool GuiSession::idle() const {
  return !search_job_.busy() && !detail_job_.busy() && !knobs_job_.busy() && !compare_job_.busy() &&
         !trace_job_.busy();
}

void GuiSession::settle() {
  if (idle()) Q_EMIT became_idle();
}

Job::Failed GuiSession::reporter() {
  return [this](const std::string& message) { report_problem(message); };
}

void GuiSession::report_problem(const std::string& text) {
  problem_ = text;
  Q_EMIT problem_changed();
}

void GuiSession::start_search() {
  report_problem("");
  search_ = {.running = true, .started = Clock::now()};
  followed_ = true;
  Q_EMIT search_changed();
  search_job_.start(
      [this, inputs = inputs_, session = session_](const std::stop_token& stop,
                                                   const Job::Deliver& deliver) -> Job::Piece {
        const auto asked = std::make_shared<const AskedSearch>(inputs, session);
        deliver([this, asked] { take_asked(asked); });
        SearchRun run(*asked, [&](std::vector<PlanRow> more, const SearchState& state) {
          deliver([this, more = std::move(more), state] { take_more(more, state); });
        });
        const SearchResult result = run.run(stop);
        if (!result.problems.empty()) throw UsageError(reasons_text(result.problems));
        auto rows = rows_of(result.candidates, result.plans, asked->question.batch);
        const SearchState state = final_state(*asked, result, stop.stop_requested());
        return [this, rows = std::move(rows), state] { take_result(rows, state); };
      },
      [this](const std::string& message) {
        search_.running = false;
        Q_EMIT search_changed();
        report_problem(message);
      });
}

void GuiSession::stop_search() { search_job_.stop(); }

void GuiSession::take_asked(std::shared_ptr<const AskedSearch> asked) {
  asked_ = std::move(asked);
  limit_ = limit_of(*asked_);
  rows_.clear();
  marked_.clear();
  compared_.clear();
  selected_.reset();
  show_rows();
  Q_EMIT selection_changed();
  Q_EMIT marks_changed();
  Q_EMIT compared_changed();
}

void GuiSession::take_more(std::vector<PlanRow> more, const SearchState& state) {
  const auto started = search_.started;
  search_ = state;
  search_.started = started;
  std::ranges::move(more, std::back_inserter(rows_));
  mark_front(rows_);
  show_rows();
  Q_EMIT search_changed();
}

void GuiSession::take_result(std::vector<PlanRow> rows, const SearchState& state) {
  std::optional<PlanChoices> selected;
  if (selected_ && !followed_) selected = rows_[*selected_].choices;
  std::vector<PlanChoices> marked;
  for (const std::uint32_t row : marked_) marked.push_back(rows_[row].choices);
  const auto started = search_.started;
  search_ = state;
  search_.started = started;
  rows_ = std::move(rows);
  mark_front(rows_);
  marked_.clear();
  for (const PlanChoices& choices : marked) {
    if (const auto row = find_row(rows_, choices)) marked_.push_back(*row);
  }
  selected_ = selected ? find_row(rows_, *selected) : std::nullopt;
  show_rows();
  if (!selected_ && !visible_.empty() && rows_[visible_.front()].simulated) {
    selected_ = visible_.front();
    load_detail();
  }
  Q_EMIT selection_changed();
  Q_EMIT marks_changed();
  Q_EMIT search_changed();
}

void GuiSession::show_rows() {
  columns_ = plan_columns(rows_);
  visible_ = visible_rows(rows_, filter_, order_, limit_);
  Q_EMIT rows_changed();
}

void GuiSession::set_filter(const std::string& text) {
  if (text == filter_text_) return;
  filter_text_ = text;
  filter_ = parse_filter(text);
  remember();
  visible_ = visible_rows(rows_, filter_, order_, limit_);
  Q_EMIT visible_changed();
}

void GuiSession::set_order(PlanOrder order) {
  order_ = std::move(order);
  visible_ = visible_rows(rows_, filter_, order_, limit_);
  Q_EMIT visible_changed();
}

void GuiSession::select(std::optional<std::uint32_t> row) {
  if (row == selected_) return;
  followed_ = false;
  selected_ = row;
  Q_EMIT selection_changed();
  load_detail();
}

void GuiSession::load_detail() {
  if (!selected_ || !asked_) return;
  to_try_.clear();
  detail_job_.start(
      [this, asked = asked_, choices = rows_[*selected_].choices](const std::stop_token&,
                                                                  const Job::Deliver&) {
        return [this, detail = detail_of(asked, choices)] { take_detail(detail); };
      },
      reporter());
}

void GuiSession::take_detail(std::shared_ptr<const PlanDetail> detail) {
  detail_ = std::move(detail);
  time_ = {0, std::max<std::int64_t>(1, detail_->lanes.end)};
  knobs_.reset();
  device_ = detail_->prediction.report.fullest_device;
  moment_ = detail_->prediction.report.fullest().peak_time;
  Q_EMIT detail_changed();
  Q_EMIT knobs_changed();
  Q_EMIT time_changed();
  load_knobs();
}

void GuiSession::load_knobs() {
  if (!detail_->choices) return knobs_job_.cancel();
  knobs_job_.start(
      [this, detail = detail_](const std::stop_token&, const Job::Deliver&) {
        auto knobs = std::make_shared<const std::vector<KnobPrice>>(knob_prices(
            *detail->choices, detail->asked->question.batch, detail->asked->setting->setting));
        return [this, knobs] {
          knobs_ = knobs;
          Q_EMIT knobs_changed();
        };
      },
      reporter());
}

void GuiSession::try_plan(const std::string& name) {
  report_problem("");
  to_try_.push_back(name);
  if (to_try_.size() == 1) try_next();
}

void GuiSession::try_next() {
  if (to_try_.empty()) return;
  const auto after = [this] {
    if (!to_try_.empty()) to_try_.pop_front();
    try_next();
  };
  detail_job_.start(
      [this, inputs = inputs_, session = session_, known = asked_, name = to_try_.front(), after](
          const std::stop_token&, const Job::Deliver&) {
        const bool same = known && known->inputs == inputs;
        const auto asked = same ? known : std::make_shared<const AskedSearch>(inputs, session);
        return [this, detail = detail_of(asked, name), after] {
          take_tried(detail);
          after();
        };
      },
      [this, after](const std::string& message) {
        report_problem(message);
        after();
      });
}

void GuiSession::take_tried(const std::shared_ptr<const PlanDetail>& detail) {
  if (detail->asked != asked_) take_asked(detail->asked);
  if (!detail->choices) return take_detail(detail);
  const PlanRow row = row_of(*detail->choices, detail->prediction.report);
  auto place = find_row(rows_, row.choices);
  if (place) {
    rows_[*place] = row;
  } else {
    place = static_cast<std::uint32_t>(rows_.size());
    rows_.push_back(row);
  }
  mark_front(rows_);
  show_rows();
  followed_ = false;
  selected_ = place;
  Q_EMIT selection_changed();
  take_detail(detail);
}

void GuiSession::open_trace(const std::string& file) {
  trace_job_.start(
      [this, file](const std::stop_token&, const Job::Deliver&) {
        auto traced = std::make_shared<TracedStep>();
        traced->name = file;
        traced->trace = read_trace(JsonInput::read(file, kLargestTrace));
        traced->lanes = lanes_of(traced->trace);
        return [this, traced] {
          traced_ = traced;
          if (!detail_) time_ = {0, std::max<std::int64_t>(1, traced_->lanes.end)};
          Q_EMIT traced_changed();
          Q_EMIT time_changed();
        };
      },
      reporter());
}

void GuiSession::toggle_mark(std::uint32_t row) {
  const auto found = std::ranges::find(marked_, row);
  if (found != marked_.end()) {
    marked_.erase(found);
  } else if (marked_.size() == kMostCompared) {
    return report_problem("four plans are compared at most: take a mark away first");
  } else {
    marked_.push_back(row);
  }
  remember();
  Q_EMIT marks_changed();
  load_compared();
}

void GuiSession::load_compared() {
  std::vector<PlanChoices> choices;
  for (const std::uint32_t row : marked_) choices.push_back(rows_[row].choices);
  compare_job_.start(
      [this, asked = asked_, choices, known = compared_](const std::stop_token& stop,
                                                         const Job::Deliver&) {
        std::vector<std::shared_ptr<const PlanDetail>> details;
        for (const PlanChoices& one : choices) {
          const auto same = [&](const auto& detail) { return detail->choices == one; };
          const auto found = std::ranges::find_if(known, same);
          if (stop.stop_requested()) break;
          details.push_back(found != known.end() ? *found : detail_of(asked, one));
        }
        return [this, details] {
          compared_ = details;
          Q_EMIT compared_changed();
        };
      },
      reporter());
}

void GuiSession::set_time(TimeAxis time) {
  if (time == time_) return;
  time_ = time;
  remember();
  Q_EMIT time_changed();
}

TracedTask GuiSession::task_named(bool predicted, std::size_t device, std::uint32_t task) const {
  if (!predicted) return traced_->trace.devices[device].tasks[task];
  const Program& program = detail_->prediction.represented.programs[device];
  return traced_task(program, program.tasks[task],
                     detail_->prediction.timeline.devices[device].tasks[task]);
}

void GuiSession::set_device(std::size_t device) {
  if (device == device_) return;
  device_ = device;
  moment_ = detail_->prediction.report.devices[device].peak_time;
  Q_EMIT device_changed();
}

void GuiSession::set_moment(Seconds moment) {
  moment_ = moment;
  Q_EMIT device_changed();
}

Look GuiSession::look() const {
  Look look{inputs_, filter_text_, {}, time_};
  for (const std::uint32_t row : marked_) look.marked.push_back(rows_[row].choices);
  return look;
}

void GuiSession::remember() {
  if (!going_back_) history_.record(look(), Clock::now());
}

// Marks of plans that are not there any more are left out.
void GuiSession::go_to(const Look* look) {
  if (!look) return;
  const Look wanted = *look;
  going_back_ = true;
  set_inputs(wanted.inputs);
  set_filter(wanted.filter);
  set_time(wanted.time);
  std::vector<std::uint32_t> marked;
  for (const PlanChoices& choices : wanted.marked) {
    if (const auto row = find_row(rows_, choices)) marked.push_back(*row);
  }
  if (marked != marked_) {
    marked_ = marked;
    Q_EMIT marks_changed();
    load_compared();
  }
  going_back_ = false;
}

void GuiSession::undo() { go_to(history_.undo()); }

void GuiSession::redo() { go_to(history_.redo()); }

void GuiSession::set_dark(bool dark) {
  if (dark == dark_) return;
  dark_ = dark;
  Q_EMIT theme_changed();
}

}  // namespace meshwright
