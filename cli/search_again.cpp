#include "cli/search_again.h"

#include <fmt/format.h>

#include <optional>

namespace meshwright {
namespace {

Remedy remedy_of(std::string change, const RankedPlan& plan) {
  return {std::move(change), plan.choices, plan.report.step, Report::needed(plan.report.fullest())};
}

// Any plan that fits is an answer.
std::optional<Remedy> remedy_by(std::string change, const SearchQuestion& question,
                                const Setting& setting, const SearchWatch& watch) {
  if (watch.stop.stop_requested()) return std::nullopt;
  const auto plan = find_any(question, setting, watch.progress, watch.stop);
  return plan ? std::optional(remedy_of(std::move(change), *plan)) : std::nullopt;
}

std::string pin_text(const KeyValue& pin) {
  return pin.value ? fmt::format("{}={}", pin.key, *pin.value) : pin.key;
}

// The question without one of its limits.
std::vector<std::pair<std::string, SearchQuestion>> looser(const SearchQuestion& question) {
  std::vector<std::pair<std::string, SearchQuestion>> questions;
  const auto add = [&](std::string change, const auto& loosen) {
    loosen(questions.emplace_back(std::move(change), question).second);
  };
  if (question.max_memory) {
    add("without --max-memory", [](SearchQuestion& q) { q.max_memory.reset(); });
  }
  if (!question.allow_close) {
    add("with --allow-close", [](SearchQuestion& q) { q.allow_close = true; });
  }
  const auto add_without = [&](const char* option, std::vector<KeyValue> SearchQuestion::*list) {
    for (std::size_t i = 0; i < (question.*list).size(); ++i) {
      add(fmt::format("without {} {}", option, pin_text((question.*list)[i])),
          [&](SearchQuestion& q) {
            (q.*list).erase((q.*list).begin() + static_cast<std::ptrdiff_t>(i));
          });
    }
  };
  add_without("--pin", &SearchQuestion::pins);
  add_without("--forbid", &SearchQuestion::forbids);
  const Precision precision = question.batch.precision;
  if (precision == Precision::FP32 || precision == Precision::FP64) {
    add("with --precision bf16", [](SearchQuestion& q) { q.batch.precision = Precision::BF16; });
  }
  return questions;
}

bool computes_in(const Cluster& cluster, Precision precision) {
  for (const NodeType& type : cluster.node_types) {
    if (!type.device.peak.contains(precision)) return false;
  }
  return true;
}

std::optional<Remedy> shorter_sequence(SearchQuestion question, const Setting& setting,
                                       const SearchWatch& watch) {
  for (int halvings = 0; halvings < 3 && question.batch.sequence % 2 == 0; ++halvings) {
    question.batch.sequence /= 2;
    auto found =
        remedy_by(fmt::format("with --seq {}", question.batch.sequence), question, setting, watch);
    if (found) return found;
  }
  return std::nullopt;
}

std::optional<Remedy> more_nodes(const SearchQuestion& question, const AskedSetting& asked,
                                 const SearchWatch& watch) {
  constexpr std::int64_t kMostTimes = 16;
  if (asked.cluster.nodes.size() != 1) return std::nullopt;
  for (std::int64_t times = 2; times <= kMostTimes; times *= 2) {
    Cluster larger = asked.cluster;
    larger.nodes.front().count *= times;
    if (device_count(larger) > kMostDevices) break;
    auto found = remedy_by(fmt::format("on {} nodes instead of {}", larger.nodes.front().count,
                                       asked.cluster.nodes.front().count),
                           question, asked.setting_on(larger), watch);
    if (found) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Remedy> fastest_of_all(SearchQuestion question, const AskedSetting& asked,
                                     const SearchWatch& watch) {
  question.objective = Objective::Time;
  question.longest_step.reset();
  question.top = 1;
  if (watch.stop.stop_requested()) return std::nullopt;
  const SearchResult result = search(question, asked.setting, watch.progress, watch.stop);
  if (result.plans.empty()) return std::nullopt;
  return remedy_of("without --deadline", result.plans.front());
}

std::vector<Remedy> find_remedies(const SearchQuestion& question, const AskedSetting& asked,
                                  const SearchWatch& watch) {
  std::vector<Remedy> remedies;
  const auto add = [&](std::optional<Remedy> found) {
    if (found) remedies.push_back(std::move(*found));
  };
  for (auto& [change, other] : looser(question)) {
    if (!computes_in(asked.cluster, other.batch.precision)) continue;
    other.defaults = choices_of(asked.software.plan, other.batch.precision);
    other.defaults.kernels = question.defaults.kernels;
    add(remedy_by(change, other, asked.setting, watch));
  }
  add(shorter_sequence(question, asked.setting, watch));
  add(more_nodes(question, asked, watch));
  return remedies;
}

std::vector<Remedy> find_faster(const SearchQuestion& question, const AskedSetting& asked,
                                const SearchWatch& watch) {
  if (auto found = more_nodes(question, asked, watch)) return {std::move(*found)};
  return {};
}

std::vector<FrontPoint> front_of(const SearchResult& first, SearchQuestion question,
                                 const Setting& setting, const SearchWatch& watch) {
  std::vector<FrontPoint> front;
  question.top = 1;
  SearchResult result = first;
  while (!result.plans.empty()) {
    FrontPoint point{result.plans.front(), result.bound, result.gap};
    // Ties and gaps may find a plan that is smaller and no slower.
    while (!front.empty() && front.back().plan.report.step >= point.plan.report.step) {
      front.pop_back();
    }
    question.max_memory = Bytes(Report::needed(point.plan.report.fullest()).value() / 10 * 9);
    front.push_back(std::move(point));
    if (watch.stop.stop_requested()) break;
    result = search(question, setting, watch.progress, watch.stop);
  }
  return front;
}

}  // namespace meshwright
