#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cli/search_view.h"
#include "gui/asked_search.h"
#include "gui/plan_rows.h"

namespace meshwright {

// How a search goes, or went.
struct SearchState {
  bool running = false;
  SearchCounts counts;
  std::optional<Seconds> best;
  double gap = 1;         // that the best is from the best possible, at most
  bool complete = false;  // the gap asked for is proven
  std::string text;       // what `meshwright plan` prints of the answer
  std::optional<Nearest> nearest;
  std::chrono::steady_clock::time_point started;
};
// Of a search that has ended.
SearchState final_state(const AskedSearch& asked, const SearchResult& result, bool stopped);

// A search that hands over what is new every now and then, not with every plan.
class SearchRun {
 public:
  using Take = std::function<void(std::vector<PlanRow>, SearchState)>;
  SearchRun(const AskedSearch& asked, Take more) : asked_(asked), more_(std::move(more)) {}

  SearchResult run(std::stop_token stop);

 private:
  void look(const SearchProgress& now);

  const AskedSearch& asked_;
  Take more_;
  std::size_t seen_ = 0;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace meshwright
