#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/search_again.h"
#include "cli/search_option.h"
#include "cli/search_view.h"
#include "cli/signal_watch.h"
#include "costmodel/base/input_error.h"
#include "costmodel/base/write_file.h"
#include "simulator/plan/plan_file.h"

namespace meshwright {
namespace {

constexpr auto kPlanFooter =
    "Searches the space that is printed below the plans (--wide: every plan there is a short form\n"
    "for), simulates the few that a bound does not rule out, and says how far from the best the\n"
    "first can be at most. Its step is that of `simulate` with the same options. Plans must fit\n"
    "with 5 % of the memory to spare (--allow-close: those too close to call too). The same\n"
    "question has the same answer on any number of threads; only --time-limit and Ctrl-C depend\n"
    "on the clock: then the best so far is printed with its gap, and the exit code is 11. Nothing\n"
    "fits: exit code 10, with the nearest plan and the smallest changes that would make something\n"
    "fit. Pins that contradict each other: 2.\n\n"
    "Examples:\n"
    "  meshwright plan --model gpt2 --cluster h100 --global-batch 32 --seq 1024 --save best.json\n"
    "  meshwright simulate --model gpt2 --cluster h100 --plan best.json\n"
    "  the first with --pin tp=2 --forbid zero=3 --max-memory \"20 GiB\": what these choices cost";

struct PlanCommandOptions {
  SettingOptions setting;
  BudgetOptions budget;
  SearchOptions search;
  std::optional<double> time_limit;
  std::optional<std::string> save;
  bool front = false, all = false;
};

// A line on standard error that is written over every second.
class SearchLine {
 public:
  explicit SearchLine(bool wanted) : wanted_(wanted && ::isatty(STDERR_FILENO) == 1) {}
  ~SearchLine() { clear(); }
  void show(const SearchProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    if (!wanted_ || now - last_ < std::chrono::seconds(1)) return;
    fmt::print(stderr, "\r{}\033[K", progress_text(progress));
    std::fflush(stderr);
    last_ = now;
    shown_ = true;
  }
  void clear() {
    if (shown_) fmt::print(stderr, "\r\033[K");
    shown_ = false;
  }

 private:
  bool wanted_ = false, shown_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// What differs between equal calls.
void add_use(nlohmann::ordered_json& document, std::chrono::steady_clock::time_point start) {
  struct rusage use {};
  ::getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  document["cpu_s"] = seconds(use.ru_utime) + seconds(use.ru_stime);
  document["wall_s"] = wall.count();
  document["peak_rss_bytes"] = static_cast<std::int64_t>(use.ru_maxrss) * 1024;
}

// The search says "pin ..." and "forbid ..." of what it does not search.
SearchResult searched(const SearchAsked& asked, const SearchWatch& watch) {
  try {
    return search(asked.question, asked.asked.setting, watch.progress, watch.stop);
  } catch (const InputError& error) {
    const std::string_view said = error.what();
    const bool of_option = said.starts_with("pin ") || said.starts_with("forbid ");
    throw UsageError(fmt::format("{}{}", of_option ? "--" : "", said));
  }
}

// Where what is asked contradicts itself: why, and what would do.
void require_possible(const SearchAsked& asked, const SearchAnswer& answer) {
  if (!answer.result.contradiction || answer.fastest) return;
  std::string others;
  for (const Remedy& remedy : answer.remedies) {
    others += fmt::format("{}{}: {}", others.empty() ? " (" : "; ", remedy.change,
                          brief_text(remedy.choices, asked.question.defaults));
  }
  throw UsageError(contradiction_text(*answer.result.contradiction) +
                   (others.empty() ? "" : others + ")"));
}

SearchAnswer answer_to(const SearchAsked& asked, const SearchWatch& watch) {
  SearchAnswer answer{.result = searched(asked, watch)};
  const SearchResult& result = answer.result;
  const SearchQuestion& question = asked.question;
  const bool found = !result.plans.empty() || result.nearest || result.contradiction;
  answer.stopped = watch.stop.stop_requested() && (!result.complete || !found);
  if (!result.plans.empty()) {
    if (asked.front) answer.front = front_of(result, question, asked.asked.setting, watch);
    return answer;
  }
  if (question.longest_step) answer.fastest = fastest_of_all(question, asked.asked, watch);
  answer.remedies = answer.fastest ? find_faster(question, asked.asked, watch)
                                   : find_remedies(question, asked.asked, watch);
  require_possible(asked, answer);
  return answer;
}

void require_found(const SearchAnswer& answer) {
  if (answer.stopped) {
    throw EndedWith(ExitCode::SearchStoppedEarly,
                    answer.result.plans.empty() ? "stopped early, before a plan was found"
                                                : "stopped early; the best so far is printed");
  }
  if (!answer.result.plans.empty()) return;
  throw EndedWith(ExitCode::NoFeasiblePlan, answer.fastest ? "no plan meets the deadline"
                                            : !answer.result.complete
                                                ? "no plan that fits was found"
                                                : "no plan fits");
}

void print_answer(const SearchAsked& asked, const SearchAnswer& answer,
                  std::chrono::steady_clock::time_point start, const Session& session) {
  if (!session.json) return print_text(search_text(asked, answer));
  nlohmann::ordered_json document = search_json(asked, answer);
  add_use(document, start);
  print_json(document);
}

void make_plans(PlanCommandOptions options, const Session& session) {
  const auto start = std::chrono::steady_clock::now();
  const SignalWatch watch(options.time_limit ? std::optional(Seconds(*options.time_limit))
                                             : std::nullopt);
  if (options.setting.software == "list") return print_text(software_list(session));
  require_given({{"--model", !options.setting.plan.model.empty()},
                 {"--cluster", !options.setting.cluster.empty()},
                 {"--global-batch", options.setting.plan.global_batch.has_value()}});
  if (options.all && !session.json) throw UsageError("--all: needs --json");
  if (options.save) check_writable(*options.save);
  apply_target(options.search, options.setting);
  const AskedSetting setting(options.setting, session);
  const auto budget = budget_from_options(options.budget, setting.cluster);
  const SearchAsked asked{setting,
                          question_from_options(options.search, options.setting, setting, budget,
                                                session, static_cast<double>(std::time(nullptr))),
                          options.search.objective,
                          budget,
                          options.front,
                          options.all};
  SearchLine line(!session.quiet);
  const SearchAnswer answer = answer_to(
      asked, {[&](const SearchProgress& progress) { line.show(progress); }, watch.token()});
  line.clear();
  if (options.save && !answer.result.plans.empty()) {
    write_text_file(*options.save, plan_text(answer.result.plans.front().plan, setting.graph.dims));
  }
  print_answer(asked, answer, start, session);
  require_found(answer);
}

}  // namespace

void add_plan_command(Command& program, Session& session) {
  Command command = program.subcommand(
      "plan", "Searches the best plan, with a proof of how good it is", kPlanFooter);
  const auto options = std::make_shared<PlanCommandOptions>();
  add_setting_options(command, options->setting);
  add_search_options(command, options->search);
  command.flag("--pareto", options->front,
               "Also the front of time against memory, by a search for each point");
  add_budget_options(command, options->budget);
  command
      .number("--time-limit", options->time_limit,
              "Seconds after which the best so far is printed (if not given, none)")
      .positive();
  command.text("--save", options->save, "Write the first plan to a file");
  command.flag("--all", options->all, "With --json: every candidate that was bounded");
  add_json_option(command, session);
  command.runs([options, &session] { make_plans(*options, session); });
}

}  // namespace meshwright
