#include "gui/session.h"

#include <algorithm>

#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

Bytes limit_of(const AskedSearch& asked) {
  Bytes limit;
  for (const NodeType& node : asked.setting->cluster.node_types) {
    const Bytes own = node.device.memory.value;
    limit = std::max(limit, std::min(asked.question.max_memory.value_or(own), own));
  }
  return limit;
}

}  // namespace

GuiSession::GuiSession(std::filesystem::path data)
    : session_{.data = std::move(data), .quiet = true},
      search_job_(*this, [this] { settle(); }),
      detail_job_(*this, [this] { settle(); }),
      knobs_job_(*this, [this] { settle(); }),
      compare_job_(*this, [this] { settle(); }),
      trace_job_(*this, [this] { settle(); }),
      range_job_(*this, [this] { settle(); }),
      find_job_(*this, [this] { settle(); }),
      runs_job_(*this, [this] { settle(); }),
      open_job_(*this, [this] { settle(); }) {
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
         !trace_job_.busy() && !range_job_.busy() && !find_job_.busy() && !runs_job_.busy() &&
         !open_job_.busy();
}

void GuiSession::settle() {
  if (idle()) Q_EMIT became_idle();
}

Job::Failed GuiSession::reporter() {
  return [this](const Ending& ending) { report_problem(ending.message, ending.code); };
}

void GuiSession::report_problem(const std::string& text, ExitCode code) {
  problem_ = text;
  problem_code_ = code;
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
          // Shared, since a piece is copied and rows are many.
          const auto rows = std::make_shared<std::vector<PlanRow>>(std::move(more));
          deliver([this, rows, state] { take_more(std::move(*rows), state); });
        });
        const SearchResult result = run.run(stop);
        if (result.contradiction) throw UsageError(contradiction_text(*result.contradiction));
        const auto rows = std::make_shared<std::vector<PlanRow>>(
            rows_of(result.candidates, result.plans, asked->question.batch));
        const SearchState state = final_state(*asked, result, stop.stop_requested());
        return [this, rows, state] { take_result(std::move(*rows), state); };
      },
      [this](const Ending& ending) {
        search_.running = false;
        Q_EMIT search_changed();
        report_problem(ending.message, ending.code);
      });
}

void GuiSession::stop_search() { search_job_.stop(); }

void GuiSession::take_asked(std::shared_ptr<const AskedSearch> asked) {
  asked_ = std::move(asked);
  limit_ = limit_of(*asked_);
  for (const std::uint32_t row : marked_) kept_marks_.push_back(rows_[row].choices);
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
  for (const std::uint32_t row : marked_) kept_marks_.push_back(rows_[row].choices);
  const auto started = search_.started;
  search_ = state;
  search_.started = started;
  rows_ = std::move(rows);
  mark_front(rows_);
  marked_.clear();
  for (const PlanChoices& choices : kept_marks_) {
    if (const auto row = row_with(rows_, choices)) add_mark(*row);
  }
  kept_marks_.clear();
  selected_ = selected ? row_with(rows_, *selected) : std::nullopt;
  show_rows();
  if (!selected_ && !visible_.empty() && rows_[visible_.front()].simulated) {
    selected_ = visible_.front();
    load_detail();
  }
  Q_EMIT selection_changed();
  Q_EMIT marks_changed();
  if (!marked_.empty()) load_compared();
  Q_EMIT search_changed();
}

void GuiSession::show_rows() {
  columns_ = plan_columns(rows_, every_column_);
  visible_ = visible_rows(rows_, filter_, order_, limit_);
  Q_EMIT rows_changed();
}

void GuiSession::set_every_column(bool every) {
  if (every == every_column_) return;
  every_column_ = every;
  show_rows();
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
  time_ = whole_time();
  knobs_.reset();
  device_ = detail_->prediction.report.fullest_device;
  moment_ = detail_->prediction.report.fullest().peak_time;
  if (range_ && range_->predicted) set_range(std::nullopt);
  found_.reset();
  Q_EMIT detail_changed();
  Q_EMIT knobs_changed();
  Q_EMIT time_changed();
  load_knobs();
  find_again();
}

void GuiSession::load_knobs() {
  if (!detail_->choices) return knobs_job_.cancel();
  knobs_job_.start(
      [this, detail = detail_](const std::stop_token& stop, const Job::Deliver&) {
        auto knobs = std::make_shared<const std::vector<KnobPrice>>(
            knob_prices(*detail->choices, detail->asked->question.batch,
                        detail->asked->setting->setting, stop));
        return [this, knobs] {
          knobs_ = knobs;
          Q_EMIT knobs_changed();
        };
      },
      reporter());
}

void GuiSession::try_plan(const std::string& name, bool mark) {
  report_problem("");
  to_try_.push_back({name, mark});
  if (to_try_.size() == 1) try_next();
}

void GuiSession::try_next() {
  if (to_try_.empty()) return;
  const auto after = [this] {
    if (!to_try_.empty()) to_try_.pop_front();
    try_next();
  };
  detail_job_.start(
      [this, inputs = inputs_, session = session_, known = asked_, plan = to_try_.front(), after](
          const std::stop_token&, const Job::Deliver&) {
        const bool same = known && known->inputs == inputs;
        const auto asked = same ? known : std::make_shared<const AskedSearch>(inputs, session);
        return [this, detail = detail_of(asked, plan.name), mark = plan.mark, after] {
          take_tried(detail, mark);
          after();
        };
      },
      [this, after](const Ending& ending) {
        report_problem(ending.message, ending.code);
        after();
      });
}

void GuiSession::take_tried(const std::shared_ptr<const PlanDetail>& detail, bool mark) {
  if (detail->asked != asked_) take_asked(detail->asked);
  if (!detail->choices) return take_detail(detail);
  const PlanRow row = row_of(*detail->choices, detail->prediction.report);
  auto place = row_with(rows_, row.choices);
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
  if (mark) {
    add_mark(*place);
    Q_EMIT marks_changed();
    load_compared();
  }
  take_detail(detail);
}

TimeAxis GuiSession::whole_time() const {
  const std::int64_t predicted = detail_ ? detail_->lanes.end : 1;
  const std::int64_t traced = traced_ ? traced_->lanes.end : 1;
  return {0, std::max({std::int64_t{1}, predicted, traced})};
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

void GuiSession::choose_moment(Seconds moment) {
  moment_ = moment;
  Q_EMIT device_changed();
  Q_EMIT moment_chosen();
}

}  // namespace meshwright
