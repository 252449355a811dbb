#include <nlohmann/json.hpp>

#include "cli/report_view.h"
#include "cli/search_view.h"
#include "costmodel/base/hash.h"
#include "costmodel/cluster/cluster_hash.h"
#include "costmodel/profile/profile_file.h"
#include "simulator/plan/plan_file.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

Json profile_hash(const AskedSetting& setting) {
  if (setting.profile == Profile{}) return Json();
  Hash hash;
  hash.add(profile_text(setting.profile));
  return hash.text();
}

Json ranked_json(const SearchAsked& asked, const RankedPlan& ranked) {
  Json report = report_json(ranked.report);
  add_budget(report, asked.budget, ranked.report);
  return {{"plan", Json::parse(plan_text(ranked.plan, asked.asked.graph.dims))},
          {"choices", to_text(ranked.choices, asked.question.defaults)},
          {"report", std::move(report)},
          {"bound_s", ranked.bound.value()},
          {"gap", 1 - ranked.bound / ranked.report.step}};
}

Json candidate_json(const SearchAsked& asked, const Candidate& candidate) {
  Json json = {{"choices", to_text(candidate.choices, asked.question.defaults)},
               {"bound_s", candidate.bound.value()},
               {"bound_bytes", candidate.bound_bytes.value()},
               {"fate", to_text(candidate.fate)}};
  if (candidate.step) json["step_s"] = candidate.step->value();
  return json;
}

Json candidates_json(const SearchAsked& asked, const std::vector<Candidate>& candidates) {
  auto json = Json::array();
  for (const Candidate& candidate : candidates) json.push_back(candidate_json(asked, candidate));
  return json;
}

Json counts_json(const SearchCounts& counts) {
  return {{"tuples", counts.tuples},
          {"bounded", counts.bounded},
          {"pruned_by_memory", counts.pruned_by_memory},
          {"pruned_by_bound", counts.pruned_by_bound},
          {"refused", counts.refused},
          {"simulated", counts.simulated},
          {"close", counts.close},
          {"too_large", counts.too_large}};
}

Json nearest_json(const SearchAsked& asked, const Nearest& nearest) {
  Json json = {{"choices", to_text(nearest.choices, asked.question.defaults)},
               {"needs_bytes", nearest.needed.value()},
               {"capacity_bytes", nearest.capacity.value()}};
  if (!nearest.host) {
    json["would_fit_bytes"] = memory_for(nearest.needed).value();
  } else {
    json["host_needs_bytes"] = nearest.host->needed.value();
    json["host_capacity_bytes"] = nearest.host->capacity.value();
  }
  return json;
}

Json remedy_json(const SearchAsked& asked, const Remedy& remedy) {
  return {{"change", remedy.change},
          {"choices", to_text(remedy.choices, asked.question.defaults)},
          {"step_s", remedy.step.value()},
          {"needs_bytes", remedy.needed.value()}};
}

Json front_json(const SearchAsked& asked, const std::vector<FrontPoint>& front) {
  auto json = Json::array();
  for (const FrontPoint& point : front) {
    const Report& report = point.plan.report;
    json.push_back({{"choices", to_text(point.plan.choices, asked.question.defaults)},
                    {"step_s", report.step.value()},
                    {"needed_bytes", Report::needed(report.fullest()).value()},
                    {"bound_s", point.bound.value()},
                    {"gap", point.gap}});
  }
  return json;
}

// What was asked, with what it was asked about.
Json asked_json(const SearchAsked& asked) {
  const SearchQuestion& question = asked.question;
  const AskedSetting& setting = asked.asked;
  Json json = {{"model", {{"name", setting.graph.name}, {"hash", setting.model.hash}}},
               {"cluster", {{"name", setting.cluster.name}, {"hash", hash_of(setting.cluster)}}},
               {"profile_hash", profile_hash(setting)},
               {"devices_there", device_count(setting.cluster)},
               {"software", setting.software.name},
               {"software_chosen", !setting.chosen.reason.empty()},
               {"precision", to_text(question.batch.precision)},
               {"global_batch", question.batch.global_batch},
               {"sequence", question.batch.sequence},
               {"objective", asked.objective},
               {"pins", pairs_text(question.pins)},
               {"forbids", pairs_text(question.forbids)},
               {"wide", question.wide},
               {"gap_asked", question.gap}};
  if (question.longest_step) json["longest_step_s"] = question.longest_step->value();
  if (question.max_memory) json["max_memory_bytes"] = question.max_memory->value();
  return json;
}

}  // namespace

Json search_json(const SearchAsked& asked, const SearchAnswer& answer) {
  const SearchResult& result = answer.result;
  Json document = {{"plans", Json::array()}};
  for (const RankedPlan& plan : result.plans) document["plans"].push_back(ranked_json(asked, plan));
  document["bound_s"] = result.bound.value();
  document["gap"] = result.plans.empty() ? Json() : Json(result.gap);
  document["complete"] = result.complete;
  document["stopped"] = answer.stopped;
  for (const auto& [key, values] : result.space) document["space"][key] = values;
  document["space_size"] = result.space_size ? Json(*result.space_size) : Json();
  if (!result.notes.empty()) document["notes"] = result.notes;
  document["counts"] = counts_json(result.counts);
  document.update(asked_json(asked));
  if (!result.complete) document["open"] = candidates_json(asked, result.open);
  if (answer.fastest) document["fastest"] = remedy_json(asked, *answer.fastest);
  if (result.nearest && !answer.fastest) document["nearest"] = nearest_json(asked, *result.nearest);
  for (const Remedy& remedy : answer.remedies) {
    document[answer.fastest ? "in_time" : "would_fit"].push_back(remedy_json(asked, remedy));
  }
  if (asked.front) document["pareto"] = front_json(asked, answer.front);
  if (asked.all_candidates) {
    document["candidates"] = candidates_json(asked, result.candidates);
    document["candidates_capped"] = result.candidates_capped;
  }
  return document;
}

}  // namespace meshwright
