#include "gui/search_run.h"

#include <algorithm>

namespace meshwright {
namespace {

constexpr auto kBatchEvery = std::chrono::milliseconds(120);

SearchState state_of(const SearchProgress& now) {
  SearchState state{.running = true, .counts = now.counts, .best = now.best};
  if (now.best) state.gap = std::max(0.0, 1 - now.bound / *now.best);
  return state;
}

}  // namespace

SearchResult SearchRun::run(std::stop_token stop) {
  return search(
      asked_.question, asked_.setting->setting, [&](const SearchProgress& now) { look(now); },
      std::move(stop));
}

void SearchRun::look(const SearchProgress& now) {
  const auto time = std::chrono::steady_clock::now();
  if (time - last_ < kBatchEvery) return;
  last_ = time;
  more_(rows_of(now.candidates.subspan(seen_), now.plans, asked_.question.batch), state_of(now));
  seen_ = now.candidates.size();
}

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

}  // namespace meshwright
