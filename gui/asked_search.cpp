#include "gui/asked_search.h"

#include <ctime>
#include <thread>

namespace meshwright {
namespace {

// More than a search simulates, so that every plan keeps its report.
constexpr std::int64_t kAllPlans = 1000;

bool is_plain(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') ||
         std::string_view("-_=.,/:+").find(letter) != std::string_view::npos;
}

std::string quoted(const std::string& word) {
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  std::string text = "'";
  for (const char letter : word)
    text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

// The command line's own reader, so that a field means what the option means: 8k is 8 x 1024.
void read_options(AskedSearch& asked) {
  std::vector<std::string> words = arguments_of(asked.inputs);
  words.insert(words.begin(), "meshwright");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  CommandLine line("", "meshwright", [] { return std::string(); });
  Command program = line.program();
  Command plan = program.subcommand("plan", "", "");
  add_setting_options(plan, asked.setting_options);
  add_search_options(plan, asked.search_options);
  add_budget_options(plan, asked.budget_options);
  plan.runs([] {});
  line.run(static_cast<int>(pointers.size()), pointers.data());
}

}  // namespace

const std::vector<InputField>& input_fields() {
  static const std::vector<InputField> kFields = {
      {&Inputs::model, "Model", "--model", "llama3-8b, or a config.json"},
      {&Inputs::cluster, "Cluster", "--cluster", "h100:4x8, or a file"},
      {&Inputs::global_batch, "Global batch", "--global-batch", "512"},
      {&Inputs::sequence, "Sequence", "--seq", "8k"},
      {&Inputs::precision, "Precision", "--precision", "what is usual there"},
      {&Inputs::software, "Software", "--software", "what is usual there"},
      {&Inputs::profile, "Profile", "--profile", "measured times"},
      {&Inputs::objective, "Objective", "--objective", "time"},
      {&Inputs::max_memory, "Memory limit", "--max-memory", "70 GiB"},
      {&Inputs::pins, "Pinned", "--pin", "tp=8,pp=4"},
      {&Inputs::forbids, "Forbidden", "--forbid", "zero=3,offload"},
      {&Inputs::target, "Target", "--target", "megatron-lm"},
      {&Inputs::gap, "Gap", "--gap", "0.01"},
      {&Inputs::tokens, "Tokens", "--tokens", "15T"},
      {&Inputs::price, "Price", "--price-per-hour", "2.5"},
      {&Inputs::deadline, "Deadline", "--deadline", "45 days"},
      {&Inputs::failures, "Failures", "--failures-per-day", "0.5"},
  };
  return kFields;
}

std::vector<std::string> arguments_of(const Inputs& inputs) {
  std::vector<std::string> words = {"plan"};
  for (const InputField& field : input_fields()) {
    const std::string& text = inputs.*field.text;
    const bool usual = field.text == &Inputs::objective && text == "time";
    if (text.empty() || usual) continue;
    words.insert(words.end(), {field.option, text});
  }
  if (inputs.allow_close) words.push_back("--allow-close");
  return words;
}

std::string command_line_of(const Inputs& inputs) {
  std::string line = "meshwright";
  for (const std::string& word : arguments_of(inputs)) line.append(" ").append(quoted(word));
  return line;
}

AskedSearch::AskedSearch(const Inputs& typed, const Session& session) : inputs(typed) {
  read_options(*this);
  require_given({{"--model", !inputs.model.empty()},
                 {"--cluster", !inputs.cluster.empty()},
                 {"--global-batch", !inputs.global_batch.empty()}});
  apply_target(search_options, setting_options);
  setting.emplace(setting_options, session);
  budget = budget_from_options(budget_options, setting->cluster);
  search_options.top = kAllPlans;
  question = question_from_options(search_options, setting_options, *setting, budget, session,
                                   static_cast<double>(std::time(nullptr)));
}

}  // namespace meshwright
