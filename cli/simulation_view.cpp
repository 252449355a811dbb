#include "cli/simulation_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/report_view.h"
#include "cli/text_table.h"
#include "costmodel/base/input_error.h"
#include "simulator/choices/plan_choices.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

std::string software_text(const Question& question, const Plan& plan) {
  std::string text =
      fmt::format("software {}, kernels {}", question.software.name, to_text(plan.kernels));
  if (!question.software_reason.empty()) text += fmt::format(" ({})", question.software_reason);
  return text;
}

// As people number them: what devices share out besides the work.
int zero_of(const Plan& plan) {
  if (!plan.state.weights.empty()) return 3;
  if (!plan.state.gradients.empty()) return 2;
  return plan.state.optimizer.empty() ? 0 : 1;
}

Json plan_json(const Question& question, const Plan& plan) {
  return {{"model", {{"name", plan.model.name}, {"hash", plan.model.hash}}},
          {"cluster", {{"name", plan.cluster.name}, {"hash", plan.cluster.hash}}},
          {"devices", device_count(plan)},
          {"devices_there", device_count(question.cluster)},
          {"global_batch", plan.global_batch},
          {"sequence", plan.sequence},
          {"micro_batch", plan.micro_batch},
          {"precision", to_text(plan.precision)},
          {"gradient_precision", to_text(plan.gradient_precision)},
          {"kernels", to_text(plan.kernels)},
          {"zero", zero_of(plan)},
          {"bucket_bytes", plan.bucket.value()},
          {"overlap_gradients", plan.overlap_gradients},
          {"prefetch", plan.prefetch},
          {"reshard", plan.reshard},
          {"offload_optimizer", plan.offload_optimizer}};
}

std::string common_text(const Question& question, const Plan& plan) {
  return fmt::format("{} on {}: {} devices, {}, sequence {}\n{}\n\n", printable(plan.model.name),
                     printable(plan.cluster.name), device_count(question.cluster),
                     to_text(plan.precision), plan.sequence, software_text(question, plan));
}

std::vector<std::string> plan_row(const Question& question, const Simulated& one) {
  const Report& report = *one.report;
  std::vector<std::string> row = {printable(one.asked),
                                  std::to_string(device_count(*one.plan)),
                                  std::to_string(one.plan->global_batch),
                                  std::string(to_text(report.fits)),
                                  to_text(Report::needed(report.fullest())),
                                  to_text(report.step),
                                  count_to_text(std::llround(tokens_per_device(report))),
                                  fmt::format("{:.1f}", flops_per_device(report) / 1e12),
                                  fmt::format("{:.1f} %", 100 * report.mfu)};
  if (!question.budget) return row;
  const auto days = days_of(*question.budget, report), cost = cost_of(*question.budget, report);
  row.push_back(days ? fmt::format("{:.3g}", *days) : "never");
  row.push_back(cost ? count_to_text(std::llround(*cost)) : "");
  return row;
}

// A short form, or null for a file.
Json choices_json(const Simulated& one) {
  return looks_like_choices(one.asked) ? Json(one.asked) : Json();
}

Json software_json(const Question& question) {
  return {{"software", question.software.name},
          {"software_chosen", !question.software_reason.empty()}};
}

}  // namespace

std::string question_text(const Question& question, const Simulated& simulated) {
  const Plan& plan = *simulated.plan;
  return fmt::format(
      "{} on {}: {} of {} devices, {}, global batch {}, sequence {}\n"
      "plan {}: {} micro-batch{} of {}\n{}\n\n",
      printable(plan.model.name), printable(plan.cluster.name), device_count(plan),
      device_count(question.cluster), to_text(plan.precision), plan.global_batch, plan.sequence,
      printable(simulated.asked), microbatch_count(plan), microbatch_count(plan) == 1 ? "" : "es",
      plan.micro_batch, software_text(question, plan));
}

std::string plans_text(const Question& question, const std::vector<Simulated>& plans) {
  std::vector<std::vector<std::string>> rows = {{"plan", "devices", "batch", "fits", "needs",
                                                 "step", "tokens/s/device", "TFLOP/s/device",
                                                 "MFU"}};
  if (question.budget) rows[0].insert(rows[0].end(), {"days", "$"});
  std::string head, problems;
  for (const Simulated& one : plans) {
    if (!one.report) {
      problems += fmt::format("  {}\n", wrapped_text(one.problem, 97, 4));
      continue;
    }
    if (head.empty()) head = common_text(question, *one.plan);
    rows.push_back(plan_row(question, one));
  }
  return head + table_text(rows, 0) + (problems.empty() ? "" : "not possible\n" + problems);
}

Json simulation_json(const Question& question, const Simulated& simulated) {
  Json document = {{"plan", plan_json(question, *simulated.plan)},
                   {"choices", choices_json(simulated)},
                   {"report", report_json(*simulated.report)}};
  add_budget(document["report"], question.budget, *simulated.report);
  document.update(software_json(question));
  document["between_steps_s"] = simulated.report->last().parts.between_steps.value();
  for (const auto& [origin, share] : simulated.report->prices) {
    document["prices"][to_text(origin)] = share;
  }
  return document;
}

Json plans_json(const Question& question, const std::vector<Simulated>& plans) {
  Json document = software_json(question);
  document["plans"] = Json::array();
  for (const Simulated& one : plans) {
    if (!one.report) {
      document["plans"].push_back({{"choices", choices_json(one)}, {"problem", one.problem}});
      continue;
    }
    Json report = report_json(*one.report);
    add_budget(report, question.budget, *one.report);
    document["plans"].push_back({{"choices", choices_json(one)},
                                 {"plan", plan_json(question, *one.plan)},
                                 {"report", std::move(report)}});
  }
  return document;
}

}  // namespace meshwright
