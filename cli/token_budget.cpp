#include "cli/token_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/report_view.h"
#include "cli/session.h"
#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

constexpr double kSecondsOfDay = 86'400;

// "15T": people count tokens in millions, billions and trillions.
double tokens_from(const std::string& text) {
  static const std::map<char, double> kWords = {
      {'k', 1e3}, {'m', 1e6}, {'b', 1e9}, {'g', 1e9}, {'t', 1e12}};
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number);
  const auto word =
      after + 1 == end
          ? kWords.find(static_cast<char>(std::tolower(static_cast<unsigned char>(*after))))
          : kWords.end();
  if (word != kWords.end()) number *= word->second;
  if (error == std::errc() && (after == end || word != kWords.end()) && std::isfinite(number) &&
      number >= 1) {
    return number;
  }
  throw UsageError(fmt::format("--tokens {}: expected a number such as 300B or 15T (1e9, 1e12)",
                               printable(text)));
}

// A bare number is in dollars, the only unit there is.
DollarsPerHour price_from(const std::string& text) {
  auto price = parse_quantity<DollarsPerHour>(text);
  if (!price) price = parse_quantity<DollarsPerHour>(text + " $/h");
  if (price && *price >= DollarsPerHour(0) && std::isfinite(price->value())) return *price;
  throw UsageError(fmt::format("--price-per-hour {}: expected dollars for each device such as 2.5",
                               printable(text)));
}

}  // namespace

double useful_share(const TokenBudget& budget, std::int64_t devices) {
  const double share = static_cast<double>(devices) / static_cast<double>(budget.devices_there);
  const Seconds lost = kCheckpointEvery / 2.0 + kRestart;
  return std::max(0.0, 1 - budget.failures_per_day * share * lost.value() / kSecondsOfDay);
}

std::optional<double> days_of(const TokenBudget& budget, const Report& report) {
  const double share = useful_share(budget, report_devices(report));
  if (share <= 0 || report.tokens_per_s <= 0) return std::nullopt;
  return budget.tokens / report.tokens_per_s / kSecondsOfDay / share;
}

std::optional<double> cost_of(const TokenBudget& budget, const Report& report) {
  const auto days = days_of(budget, report);
  if (!budget.price || !days) return std::nullopt;
  return *days * 24 * budget.price->value() * static_cast<double>(report_devices(report));
}

void add_budget_options(Command& command, BudgetOptions& options) {
  command.text("--tokens", options.tokens, "Days and, with a price, money for so many: 300B, 15T");
  command.text("--price-per-hour", options.price,
               "Dollars for each device (if not given, the cluster's)");
  command
      .number("--failures-per-day", options.failures_per_day,
              "Of all devices of the cluster together, of which a plan has its share: each takes\n"
              "15 minutes of work (half of what lies between checkpoints) and 10 to restart, so\n"
              "days = days without any / (1 - failures x 25 minutes / 1 day)")
      .at_least_zero();
}

std::optional<TokenBudget> budget_from_options(const BudgetOptions& options,
                                               const Cluster& cluster) {
  if (!options.tokens) {
    if (options.price) throw UsageError("--price-per-hour: needs --tokens");
    if (options.failures_per_day > 0) throw UsageError("--failures-per-day: needs --tokens");
    return std::nullopt;
  }
  TokenBudget budget{.tokens = tokens_from(*options.tokens),
                     .failures_per_day = options.failures_per_day,
                     .devices_there = device_count(cluster)};
  const auto& listed = cluster.node_types.front().device.price;
  if (listed && cluster.node_types.size() == 1) budget.price = listed->value;
  if (options.price) budget.price = price_from(*options.price);
  return budget;
}

std::string budget_text(const std::optional<TokenBudget>& budget, const Report& report) {
  if (!budget || report.tokens_per_s <= 0) return "";
  const std::string tokens =
      fmt::format("\n{} tokens: ", count_to_text(std::llround(budget->tokens)));
  const auto days = days_of(*budget, report);
  if (!days) return tokens + "never, with so many failures\n";
  std::string text = tokens + fmt::format("{:.3g} days", *days);
  if (const auto cost = cost_of(*budget, report)) {
    text += fmt::format(", {} $ at {} for each of {} devices", count_to_text(std::llround(*cost)),
                        to_text(*budget->price), report_devices(report));
  }
  if (budget->failures_per_day > 0) {
    text += fmt::format(", training {:.1f} % of the time",
                        100 * useful_share(*budget, report_devices(report)));
  }
  return text + "\n";
}

void add_budget(nlohmann::ordered_json& report, const std::optional<TokenBudget>& budget,
                const Report& from) {
  if (!budget || from.tokens_per_s <= 0) return;
  const auto days = days_of(*budget, from);
  report["days"] = days ? nlohmann::ordered_json(*days) : nlohmann::ordered_json();
  if (const auto cost = cost_of(*budget, from)) report["cost"] = *cost;
}

}  // namespace meshwright
