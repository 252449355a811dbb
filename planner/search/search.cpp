#include "planner/search/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "planner/search/children.h"
#include "planner/search/contradiction.h"
#include "planner/search/crew.h"
#include "planner/search/expectation.h"
#include "planner/search/lean_search.h"
#include "planner/search/nearest_plan.h"
#include "planner/search/objective.h"
#include "planner/search/pace.h"
#include "planner/search/shared_bounds.h"
#include "planner/search/space.h"
#include "planner/search/staged_sets.h"
#include "planner/search/tried_plan.h"
#include "simulator/choices/model_layers.h"

namespace meshwright {
namespace {

class Search {
 public:
  Search(const SearchQuestion& question, const Setting& setting,
         const std::function<void(const SearchProgress&)>& progress, std::stop_token stop)
      : question_(question),
        setting_(setting),
        progress_(progress),
        stop_(std::move(stop)),
        space_(question, setting),
        capacity_(capacity_of(question, setting.cluster)),
        crew_(std::min(question.threads, kMostThreads)),
        shared_(
            space_, room(),
            std::make_unique<Bounds>(question.batch, setting, room(), space_.recompute_choices()),
            crew_, stop_),
        trials_(crew_.size(), PlanTrials(question_.batch, setting_, stop_)),
        expectation_(room(), question.batch.global_batch * find_layers(setting.model).count()) {}

  SearchResult run() {
    if (question_.wide) start_with_usual();
    decide_meshes();
    while (!stop_.stop_requested() && !is_exhausted() && decide_next()) continue;
    if (!best_ && open_.least()) find_lean();
    prove();
    add_alternatives();
    finish();
    return std::move(result_);
  }

  // Where bounds lead soon, that is a better plan than one that needs little.
  std::optional<RankedPlan> any() {
    constexpr std::int64_t kMostBounded = 2000;
    decide_meshes();
    while (!best_ && !stop_.stop_requested() && result_.counts.bounded < kMostBounded) {
      if (!decide_next()) break;
    }
    if (!best_ && open_.least()) find_lean();
    if (result_.plans.empty()) return std::nullopt;
    return std::move(result_.plans.front());
  }

 private:
  void decide_meshes() {
    std::vector<Child> meshes;
    for (PlanChoices& mesh : space_.meshes(stop_)) meshes.push_back({Depth::Mesh, std::move(mesh)});
    add_all(std::move(meshes));
    knows_meshes_ = !stop_.stop_requested();
  }

  // The next set further; a plan is simulated. False: nothing is left that may be good enough.
  bool decide_next() {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    const Node* least = open_.least();
    const auto promising = pace_.promising(best_, least ? least->cost : 0, bounds().block_count());
    const auto node = open_.next(best_ ? enough() : kNever, promising, best_.has_value());
    if (!node) return false;
    look_at(*node);
    pace_.note_turn();
    report_progress(node->depth == Depth::Plan);
    return true;
  }

  // Of a wide space first what is searched in any case: so it finds nothing worse, and what cannot
  // be better is left from the beginning.
  void start_with_usual() {
    SearchQuestion usual = question_;
    usual.wide = false;
    Search part(usual, setting_, {}, stop_);
    part.is_part_ = true;
    SearchResult found = part.run();
    result_.counts = found.counts;
    if (found.plans.empty()) return;
    const RankedPlan& first = found.plans.front();
    best_ = cost_of(first.choices, first.report.step);
    best_step_ = first.report.step;
    best_choices_ = first.choices;
    for (const RankedPlan& plan : found.plans) {
      usual_.insert(to_text(plan.choices));
      ahead_.emplace(to_text(plan.choices), SimulatedPlan{plan.plan, plan.report, 0});
    }
    result_.plans = std::move(found.plans);
  }

  // More have nothing to do: few sets have that many parts at once.
  static constexpr std::size_t kMostThreads = 16;

  double cost_of(const PlanChoices& choices, Seconds step) const {
    return meshwright::cost_of(question_, choices, step);
  }

  // A plan that needs more than this can at best be too close to call.
  Bytes room() const {
    const double share = question_.allow_close ? 1 : 1 - kCloseShare;
    return Bytes(static_cast<std::int64_t>(static_cast<double>(capacity_.value()) * share));
  }

  // What nothing open may cost less than.
  double enough() const {
    if (question_.objective != Objective::Devices) return (1 - question_.gap) * *best_;
    return *best_ - question_.gap * (*best_ - std::floor(*best_));
  }

  // With very many micro-batches a simulation takes seconds, and so do a thousand blocks.
  bool is_exhausted() const {
    constexpr std::int64_t kMostTasks = 100'000'000;
    constexpr std::size_t kMostBlocks = 5000;
    return best_ && (tasks_ >= kMostTasks || bounds().block_count() >= kMostBlocks);
  }

  Bounds& bounds() const { return shared_.bounds(); }

  // What it costs at least. None: it cannot be planned or does not fit.
  std::optional<double> add(Child child, const std::variant<PlanBound, Reasons>& found) {
    ++result_.counts.tuples;
    if (std::holds_alternative<Reasons>(found)) {
      ++result_.counts.refused;
      return std::nullopt;
    }
    Node node{child.depth, std::move(child.choices), std::get<PlanBound>(found)};
    node.bound.step = std::max(node.bound.step, child.before.step);
    node.bound.bytes = std::max(node.bound.bytes, child.before.bytes);
    node.cost = cost_of(node.choices, node.bound.step);
    const double cost = node.cost;
    if (node.depth >= Depth::Division) ++result_.counts.bounded;
    if (node.bound.bytes > room() || (node.depth >= Depth::Decided &&
                                      overfills_host(node.bound, node.choices, setting_.cluster))) {
      drop(node, Fate::PrunedByMemory);
      return std::nullopt;
    }
    if (is_too_slow(question_, node.bound.step) || (best_ && cost >= *best_)) {
      drop(node, Fate::PrunedByBound);
    } else {
      open_.push(std::move(node));
    }
    return cost;
  }

  // What the least of them costs. When asked to stop nothing is added.
  std::optional<double> add_all(std::vector<Child> children) {
    const auto found = shared_.of(children);
    std::optional<double> least;
    if (stop_.stop_requested()) return least;
    for (std::size_t i = 0; i < children.size(); ++i) {
      const auto cost = add(std::move(children[i]), found[i]);
      if (cost) least = std::min(least.value_or(*cost), *cost);
    }
    return least;
  }

  void drop(const Node& node, Fate fate) {
    if (fate == Fate::PrunedByMemory) {
      ++result_.counts.pruned_by_memory;
    } else {
      ++result_.counts.pruned_by_bound;
    }
    if (is_candidate(node)) keep(node, fate);
  }

  // Where only what is kept and the bucket are open, the plain ones stand for all.
  static bool is_candidate(const Node& node) { return node.depth >= Depth::Zero; }

  void keep(const Node& node, Fate fate, const Report* report = nullptr) {
    if (result_.candidates.size() >= question_.most_candidates) {
      result_.candidates_capped = true;
      return;
    }
    result_.candidates.push_back({node.choices, node.bound.step, node.bound.bytes, fate, {}});
    if (!report) return;
    result_.candidates.back().step = report->step;
    result_.candidates.back().needed = Report::needed(report->fullest());
  }

  // Where it ended by counts: what needs little may fit, whatever time it takes.
  void find_lean() {
    for (const HostsUsed hosts : {HostsUsed::None, HostsUsed::WithRoom}) {
      LeanSearch lean(space_, question_.batch, setting_, bounds(), hosts, {}, stop_);
      while (auto found = lean.next(room())) {
        Node node{Depth::Plan, found->choices, bounds().of(found->choices)};
        node.cost = cost_of(node.choices, node.bound.step);
        if (was_tried(node)) continue;
        ahead_.insert_or_assign(to_text(node.choices), std::move(found->plan));
        simulate(node);
        if (best_) return;
      }
    }
  }

  bool was_tried(const Node& node) const {
    return std::ranges::find(result_.candidates, node.choices, &Candidate::choices) !=
           result_.candidates.end();
  }

  // Simulates a plan, decides a set further.
  void look_at(const Node& node) {
    if (node.depth == Depth::Plan) {
      const std::optional<double> before = best_;
      // Others have a count of their own.
      const bool doubtful = node.choices.offload_activations && expectation_.fits(node);
      simulate(node);
      pace_.note_plan(best_ != before, bounds().block_count());
      if (doubtful) open_.note_doubtful(node, best_ != before);
      return;
    }
    const std::optional<double> least = add_all(children_of(node, space_, bounds()));
    if (stop_.stop_requested()) return open_.push(node);
    if (least && node.cost > 0) expectation_.learn(node.depth, *least / node.cost);
  }

  // Other threads try what is next meanwhile. What is never asked for is never looked at.
  TriedPlan tried(const Node& node) {
    const auto known = ahead_.extract(to_text(node.choices));
    if (!known.empty()) return std::move(known.mapped());
    std::vector<Node> plans = {node};
    if (crew_.size() > 1) {
      for (Node& next : open_.next_plans(crew_.size() - 1)) {
        if (!ahead_.contains(to_text(next.choices))) plans.push_back(std::move(next));
      }
    }
    std::vector<TriedPlan> all(plans.size());
    crew_.each(plans.size(), [&](std::size_t thread, std::size_t i) {
      all[i] = trials_[thread].of(plans[i].choices, plans[i].bound.fullest_stage, room());
    });
    for (std::size_t i = 1; i < all.size() && !stop_.stop_requested(); ++i) {
      ahead_.emplace(to_text(plans[i].choices), std::move(all[i]));
    }
    return std::move(all.front());
  }

  void simulate(const Node& node) {
    TriedPlan made = tried(node);
    if (std::holds_alternative<Stopped>(made)) return open_.push(node);
    if (std::holds_alternative<Reasons>(made)) {
      ++result_.counts.refused;
      return keep(node, Fate::Refused);
    }
    if (const auto* large = std::get_if<TooLarge>(&made)) return drop_large(node, large->needed);
    auto& [plan, report, tasks] = std::get<SimulatedPlan>(made);
    tasks_ += tasks;
    const Fit fit = fit_within(report, question_.max_memory);
    const bool fits = fit == Fit::Yes || (fit == Fit::Close && question_.allow_close);
    if (!expectation_.fits(node)) open_.note_unexpected(node, fits);
    const double cost = cost_of(node.choices, report.step);
    expectation_.learn(node, report, cost);
    if (fit == Fit::No) {
      ++result_.counts.too_large;
      nearest_.note(node.choices, report);
      return keep(node, Fate::TooLarge, &report);
    }
    if (fit == Fit::Close && !question_.allow_close) {
      ++result_.counts.close;
      nearest_.note(node.choices, report);
      return keep(node, Fate::Close, &report);
    }
    ++result_.counts.simulated;
    keep(node, Fate::Simulated, &report);
    if (is_too_slow(question_, report.step)) return nearest_.note_fitting();
    if (!best_ || cost < *best_) {
      best_ = cost;
      best_step_ = report.step;
      best_choices_ = node.choices;
    }
    if (usual_.contains(to_text(node.choices))) return;  // it is there
    result_.plans.push_back({node.choices, std::move(plan), std::move(report), node.bound.step});
    rank_plans();
  }

  void drop_large(Node node, Bytes needed) {
    if (!expectation_.fits(node)) open_.note_unexpected(node, false);
    expectation_.learn_needed(node, needed);
    node.bound.bytes = needed;
    drop(node, Fate::PrunedByMemory);
  }

  // Ties: fewer devices, less memory, text.
  void rank_plans() {
    const auto key = [&](const RankedPlan& plan) {
      return std::tuple(cost_of(plan.choices, plan.report.step), plan.report.step.value(),
                        device_count(plan.choices), Report::needed(plan.report.fullest()).value(),
                        to_text(plan.choices));
    };
    std::ranges::sort(result_.plans, {}, key);
    if (result_.plans.size() > std::max<std::size_t>(1, question_.top)) result_.plans.pop_back();
  }

  void report_progress(bool simulated) {
    if (!progress_ || (pace_.turns() % 64 != 0 && !simulated)) return;
    SearchProgress now{.counts = result_.counts,
                       .best = best_step_,
                       .best_choices = best_choices_,
                       .candidates = result_.candidates,
                       .plans = result_.plans};
    const Node* least = open_.least();
    if (least && best_) now.bound = *best_step_ * std::min(1.0, least->cost / *best_);
    progress_(now);
  }

  // Nothing open costs less than this now, and nothing that is made of it later.
  void prove() {
    least_ = best_.value_or(0);
    const Node* least = open_.least();
    if (least) least_ = best_ ? std::min(least_, least->cost) : least->cost;
    if (!knows_meshes_) least_ = 0;
    result_.complete = knows_meshes_ && (best_ ? least_ >= enough() : !least);
  }

  // Plans that are not much worse than the first.
  std::size_t alike() const {
    constexpr double kMuch = 1.2;
    return static_cast<std::size_t>(
        std::ranges::count_if(result_.plans, [&](const RankedPlan& plan) {
          return cost_of(plan.choices, plan.report.step) <= kMuch * *best_;
        }));
  }

  // Tasks of a plan, as far as plans were simulated.
  std::int64_t tasks_of_plan() const {
    const SearchCounts& counts = result_.counts;
    return tasks_ / std::max<std::int64_t>(1, counts.simulated + counts.close + counts.too_large);
  }

  // Some more plans to choose from, where the proof left few: the next by their bounds. Of plans
  // that take long to play there are fewer, or none.
  void add_alternatives() {
    constexpr std::size_t kAlternatives = 5;
    constexpr int kMostSimulated = 10;
    constexpr std::int64_t kMostTurns = 2000, kMostTasks = 100'000, kMostPlayed = 20'000'000;
    const std::size_t wanted = std::min(kAlternatives, question_.top);
    const std::int64_t before = tasks_;
    int simulated = 0;
    for (std::int64_t turn = 0; turn < kMostTurns && simulated < kMostSimulated; ++turn) {
      if (!best_ || !result_.complete || alike() >= wanted) return;
      if (tasks_ - before + tasks_of_plan() > kMostTasks) return;
      if (turn * tasks_of_plan() > kMostPlayed || stop_.stop_requested()) return;
      const auto node = open_.next(std::numeric_limits<double>::infinity(), std::nullopt, true);
      if (!node) return;
      if (node->depth == Depth::Plan) ++simulated;
      look_at(*node);
    }
  }

  void finish() {
    if (!best_ && !is_part_) {
      nearest_.look_around(space_, bounds(), result_.counts, stop_);
      result_.nearest = nearest_.nearest();
    }
    if (best_ && space_.open_share() > 0) {
      least_ *= 1 - space_.open_share();
      result_.complete = result_.complete && least_ >= enough();
    }
    if (best_) {
      const double share = std::min(1.0, least_ / *best_);
      result_.gap = 1 - share;
      result_.bound = *best_step_ * share;
    }
    for (std::size_t i = 0; !result_.complete && i < 5 && open_.least(); ++i) {
      const Node node = open_.pop_least();
      result_.open.push_back({node.choices, node.bound.step, node.bound.bytes, Fate::Open, {}});
    }
    while (open_.least()) {
      const Node node = open_.pop_least();
      const bool worse = best_ && node.cost >= enough();
      if (is_candidate(node)) keep(node, worse ? Fate::PrunedByBound : Fate::Open);
    }
    std::ranges::stable_sort(result_.candidates, {}, &Candidate::bound);
    if (!best_ && !is_part_ && result_.complete && !nearest_.knows_plans()) {
      result_.contradiction = contradiction_in(question_, setting_, stop_);
    }
    result_.notes = space_.notes();
    result_.space = space_.text();
    if (!is_part_) result_.space_size = space_.size(stop_);
  }

  const SearchQuestion& question_;
  const Setting& setting_;
  const std::function<void(const SearchProgress&)>& progress_;
  const std::stop_token stop_;
  const SearchSpace space_;
  const Bytes capacity_;
  Crew crew_;
  SharedBounds shared_;
  std::vector<PlanTrials> trials_;  // of each thread
  Expectation expectation_;
  StagedSets open_{expectation_, question_.most_simulated};
  std::map<std::string, TriedPlan> ahead_;  // by their text
  std::set<std::string> usual_;             // plans of the space that is not wide
  std::int64_t tasks_ = 0;                  // that were simulated
  std::optional<double> best_;              // by the objective
  double least_ = 0;                        // that anything costs, as far as is proven
  std::optional<Seconds> best_step_;
  std::optional<PlanChoices> best_choices_;
  Pace pace_;
  bool knows_meshes_ = false;  // was not stopped before
  bool is_part_ = false;       // of a wider search, which says what is nearest
  NearestPlan nearest_{question_, setting_};
  SearchResult result_;
};

}  // namespace

SearchResult search(const SearchQuestion& question, const Setting& setting,
                    const std::function<void(const SearchProgress&)>& progress,
                    std::stop_token stop) {
  return Search(question, setting, progress, std::move(stop)).run();
}

std::optional<RankedPlan> find_any(SearchQuestion question, const Setting& setting,
                                   const std::function<void(const SearchProgress&)>& progress,
                                   std::stop_token stop) {
  question.most_simulated = 10;
  question.top = 1;
  return Search(question, setting, progress, std::move(stop)).any();
}

}  // namespace meshwright
