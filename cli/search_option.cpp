#include "cli/search_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <thread>

#include "cli/cluster_option.h"
#include "cli/export_option.h"
#include "cli/library_folders.h"
#include "cli/model_option.h"
#include "costmodel/base/input_error.h"
#include "costmodel/model/op_rules.h"
#include "executor/cpu/kernels.h"
#include "planner/search/searched_keys.h"
#include "simulator/choices/recompute_segments.h"

namespace meshwright {
namespace {

constexpr double kDay = 86'400;

std::string without_blanks(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == text.npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(' ') - first + 1));
}

// "tp=8,pp=4" is two.
std::vector<KeyValue> pairs_from(const char* option, const std::vector<std::string>& texts,
                                 bool need_value) {
  std::vector<KeyValue> pairs;
  for (const std::string& text : texts) {
    for (std::size_t at = 0; at <= text.size();) {
      const auto comma = std::min(text.find(',', at), text.size());
      const std::string part = without_blanks(text.substr(at, comma - at));
      const auto equals = part.find('=');
      const bool has_value = equals != part.npos && equals + 1 < part.size();
      if (equals == 0 || part.empty() || (equals != part.npos && !has_value) ||
          (need_value && !has_value)) {
        throw UsageError(fmt::format("{} {}: expected {}", option, printable(text),
                                     need_value
                                         ? "a key with a value such as tp=8"
                                         : "a key such as offload, or with a value: zero=3"));
      }
      pairs.push_back(
          {without_blanks(part.substr(0, equals)),
           has_value ? std::optional(without_blanks(part.substr(equals + 1))) : std::nullopt});
      at = comma + 1;
    }
  }
  return pairs;
}

// What is wrong with choices whatever else is chosen is said here: the search would look for what
// they go with.
void require_readable(const char* option, const std::string& text, const PlanChoices& defaults,
                      const Model& model) {
  const auto refuse = [&](std::string_view why) {
    throw UsageError(fmt::format("{} {}: {}", option, printable(text), why));
  };
  try {
    Reasons problems;
    check_dropped(problems, parse_plan_choices(text, defaults), model);
    if (!problems.empty()) refuse(reasons_text(problems));
  } catch (const InputError& error) {
    const std::string_view said = error.what(), of_plan = "plan: ";
    refuse(said.starts_with(of_plan) ? said.substr(of_plan.size()) : said);
  }
}

const std::string* pinned_value(const SearchQuestion& question, std::string_view key) {
  const auto pin = std::ranges::find(question.pins, key, &KeyValue::key);
  return pin == question.pins.end() ? nullptr : &*pin->value;
}

// What would change nothing is refused rather than taken without a word.
void require_effect(const SearchQuestion& question, const Model& model) {
  PlanChoices pinned = question.defaults;
  for (const KeyValue& pin : question.pins) {
    pinned = parse_plan_choices(pin.key + "=" + *pin.value, pinned);
  }
  const auto refuse_if = [&](bool useless, std::string_view key, std::string_view why) {
    const std::string* value = pinned_value(question, key);
    if (value && useless) throw UsageError(fmt::format("--pin {}={}: {}", key, *value, why));
  };
  const PlanChoices& otherwise = question.defaults;
  const RecomputeChoice& again = pinned.recompute;
  const bool reruns = pinned_value(question, "recompute") && again.kind != Recompute::None &&
                      again.kind != Recompute::Drop;
  refuse_if(pinned.rerun_all != otherwise.rerun_all && !reruns, "rerun_all",
            "what is searched computes chosen tensors again and nothing else; it goes with a pin "
            "recompute=selective, products, full, uniform:LAYERS or first:LAYERS");
  const std::string* zero = pinned_value(question, "zero");
  const bool gathers = !zero || *zero == "3";
  const std::string only =
      "only zero=3 gathers weights, and zero is pinned to " + (zero ? *zero : "");
  refuse_if(!gathers && pinned.prefetch != otherwise.prefetch, "prefetch", only);
  refuse_if(!gathers && pinned.reshard != otherwise.reshard, "reshard", only);
  refuse_if(zero && *zero == "0", "shard", "zero=0 shares no state out, and is pinned");
  refuse_if(pinned.imbalance != 1 && size_of_dim(model, "experts") == 0, "imbalance",
            "the model has no experts");
}

// Pins are read together, so that none is given twice.
void require_readable(const SearchQuestion& question, const Model& model) {
  std::string pins;
  bool layered = false, has_depth = false;
  for (const KeyValue& pin : question.pins) {
    pins += fmt::format("{}{}={}", pins.empty() ? "" : ",", pin.key, *pin.value);
    layered = layered || (pin.key == "tensor" && *pin.value == "2.5d");
    has_depth = has_depth || pin.key == "depth";
  }
  if (!pins.empty()) require_readable("--pin", pins, question.defaults, model);
  if (has_depth && !layered) {
    throw UsageError(fmt::format("--pin {}: depth: only tensor=2.5d has layers", printable(pins)));
  }
  require_effect(question, model);
  for (const KeyValue& forbid : question.forbids) {
    if (!forbid.value || !find_key(forbid.key)) continue;
    require_readable("--forbid", fmt::format("{}={}", forbid.key, *forbid.value), question.defaults,
                     model);
  }
}

Objective objective_from(const std::string& text) {
  if (text == "time") return Objective::Time;
  return text == "devices" ? Objective::Devices : Objective::TimePerToken;
}

// The seconds until a day begins, or that so many days have: "45 days", "45d".
double seconds_until(const std::string& text, double now) {
  int year = 0, month = 0, day = 0, end = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &end) == 3 &&
      static_cast<std::size_t>(end) == text.size() && is_date(text)) {
    struct tm parts {};
    parts.tm_year = year - 1900;
    parts.tm_mon = month - 1;
    parts.tm_mday = day;
    return static_cast<double>(::timegm(&parts)) - now;
  }
  double days = 0;
  const auto [after, error] = std::from_chars(text.data(), text.data() + text.size(), days);
  const std::string unit(after, text.data() + text.size());
  if (error == std::errc() && (unit == "d" || unit == " day" || unit == " days") && days > 0 &&
      days < 1e6) {
    return days * kDay;
  }
  throw UsageError(
      fmt::format("--deadline {}: expected a day such as 2030-12-31, or \"45 days\" from now",
                  printable(text)));
}

// So long may a step take. Failures count as if all devices of the cluster were used.
Seconds longest_step_for(const std::string& deadline, const std::optional<TokenBudget>& budget,
                         const BatchChoice& batch, double now) {
  if (!budget) throw UsageError("--deadline: needs --tokens");
  const double left = seconds_until(deadline, now);
  if (left <= 0) throw UsageError(fmt::format("--deadline {}: is over", printable(deadline)));
  const double useful = left * useful_share(*budget, budget->devices_there);
  if (useful <= 0) throw UsageError("--failures-per-day: so many that nothing is ever trained");
  return Seconds(useful * static_cast<double>(batch.global_batch) *
                 static_cast<double>(batch.sequence) / budget->tokens);
}

Bytes memory_from(const std::string& text) {
  const auto bytes = parse_quantity<Bytes>(text);
  if (bytes && *bytes > Bytes(0)) return *bytes;
  throw UsageError(
      fmt::format("--max-memory {}: expected {}", printable(text), expected_text<Bytes>()));
}

std::size_t threads_from(const std::optional<std::int64_t>& asked) {
  if (asked) return static_cast<std::size_t>(*asked);
  return std::clamp(std::thread::hardware_concurrency(), 1u, 256u);
}

// Of keys that are not searched, those whose values are not the software's.
std::vector<KeyValue> differing_keys(const PlanChoices& choices, const PlanChoices& defaults) {
  std::vector<KeyValue> keys;
  const auto add = [&](std::string key, const auto& value, const auto& otherwise,
                       const auto& text) {
    if (value != otherwise) keys.push_back({std::move(key), fmt::format("{}", text)});
  };
  add("kernels", choices.kernels, defaults.kernels, to_text(choices.kernels));
  add("gradients", choices.gradient_precision, defaults.gradient_precision,
      to_text(choices.gradient_precision.value_or(Precision::FP32)));
  add("rerun_all", choices.rerun_all, defaults.rerun_all, choices.rerun_all);
  add("overlap", choices.overlap, defaults.overlap, choices.overlap);
  add("reshard", choices.reshard, defaults.reshard, choices.reshard);
  add("prefetch", choices.prefetch, defaults.prefetch, choices.prefetch);
  return keys;
}

// What the target does where nothing is searched, and what it can be told of the rest.
void restrict_to_target(SearchQuestion& question, const std::string& name,
                        const SettingOptions& options, const AskedSetting& asked,
                        const Session& session) {
  const ExportTarget& target = target_from_option("--target", name);
  const auto to_export =
      std::make_shared<const AskedExport>(options, asked, question.batch, session);
  const Reasons problems = model_problems(target, to_export->setting);
  if (!problems.empty()) {
    throw UsageError(fmt::format("--target {}: {}", name, reasons_text(problems)));
  }
  const PlanChoices carried = carried_defaults(target, question.defaults, to_export->setting);
  for (KeyValue& pin : differing_keys(carried, question.defaults)) {
    const bool is_asked =
        std::ranges::find(question.pins, pin.key, &KeyValue::key) != question.pins.end();
    if (!is_asked) question.pins.push_back(std::move(pin));
  }
  question.target = target_space(target, to_export);
}

// Every micro-batch that divides it is looked at, and tokens are easily taken for samples.
void require_searchable(std::int64_t global_batch) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  if (global_batch <= kMost) return;
  throw UsageError(fmt::format(
      "--global-batch {}: expected at most {} samples; a batch given in tokens is to be divided by "
      "the sequence",
      global_batch, kMost));
}

BatchChoice batch_from(const SettingOptions& options, const AskedSetting& asked) {
  require_searchable(*options.plan.global_batch);
  const Precision precision = precision_from(options.plan, usual_precision(asked.cluster));
  require_precision(asked.cluster, precision);
  return {.global_batch = *options.plan.global_batch,
          .sequence = sequence_or_default(options.plan.sequence, asked.graph),
          .precision = precision};
}

}  // namespace

void add_search_options(Command& command, SearchOptions& options) {
  command
      .text("--objective", options.objective,
            "time: of a step; tokens-per-device: the most tokens/s of each device;\n"
            "money: the same, since every device costs as much; devices: the fewest")
      .with_default()
      .one_of({"time", "tokens-per-device", "money", "devices"});
  command.text("--deadline", options.deadline,
               "A day such as 2030-12-31, or \"45 days\": no step may take longer than --tokens\n"
               "by then allow (with --objective devices: how many devices that takes)");
  command.repeated("--pin", options.pins,
                   "A choice that is made: tp=8, or several: tp=8,pp=4 (may be repeated)");
  command.repeated("--forbid", options.forbids,
                   "A choice that is not to be made: zero=3, or all but its default: offload\n"
                   "(may be repeated)");
  command.text("--max-memory", options.max_memory, "As if no device had more, such as \"70 GiB\"");
  command.flag("--allow-close", options.allow_close,
               "Plans that are too close to call count as fitting");
  command.flag("--wide", options.wide,
               "Also what seldom wins and takes long to prove: every form that can be simulated\n"
               "but capacity");
  command.text(
      "--target", options.target,
      "What is to run the plan, one of `export --list`: only what it can be told is\n"
      "searched, by its defaults (executor is `meshwright run`: fp32 if no precision is given)");
  command.number("--top", options.top, "How many plans are shown").with_default().between(1, 1000);
  command
      .number("--gap", options.gap,
              "Search until the first plan is proven to be so close to the best")
      .with_default()
      .between(0, 1);
  command.number("--threads", options.threads, "If not given, one for each core").between(1, 256);
}

void apply_target(const SearchOptions& search, SettingOptions& options) {
  if (!search.target) return;
  const ExportTarget& target = target_from_option("--target", *search.target);
  if (!options.software) options.software = target.software;
  if (target.name != "executor") return;
  if (!options.plan.precision) options.plan.precision = "fp32";
  const auto precision = parse_precision(*options.plan.precision);
  if (!precision || has_kernels(*precision)) return;
  throw UsageError(fmt::format("--target executor: runs fp64, fp32, bf16 and fp16, not {}",
                               printable(*options.plan.precision)));
}

SearchQuestion question_from_options(const SearchOptions& options, const SettingOptions& setting,
                                     const AskedSetting& asked,
                                     const std::optional<TokenBudget>& budget,
                                     const Session& session, double now) {
  const BatchChoice batch = batch_from(setting, asked);
  SearchQuestion question{.batch = batch,
                          .defaults = choices_of(asked.software.plan, batch.precision),
                          .pins = pairs_from("--pin", options.pins, true),
                          .forbids = pairs_from("--forbid", options.forbids, false),
                          .allow_close = options.allow_close,
                          .wide = options.wide,
                          .objective = objective_from(options.objective),
                          .gap = options.gap,
                          .top = static_cast<std::size_t>(options.top),
                          .threads = threads_from(options.threads),
                          .solver_folders = solver_folders()};
  require_readable(question, asked.setting.model);
  if (options.target) restrict_to_target(question, *options.target, setting, asked, session);
  if (options.max_memory) question.max_memory = memory_from(*options.max_memory);
  if (options.deadline) {
    question.longest_step = longest_step_for(*options.deadline, budget, batch, now);
  }
  return question;
}

}  // namespace meshwright
