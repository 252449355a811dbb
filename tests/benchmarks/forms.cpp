// What there is of every form of parallelism: whether it trains like one device, what of it is
// searched, what it can be exported to, and with which other forms it goes together.
//
//   forms [--pairs]
//
// Prints the table of docs/forms.md; with --pairs also why two forms do not go together, or what is
// wrong where they do. Everything in it comes from plans that are made, lowered, checked, trained
// and written here and now.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/export/export.h"
#include "planner/search/space.h"
#include "tests/export/export_bench.h"
#include "tests/laws/training.h"
#include "tests/planner/random_choices.h"

namespace {

using namespace meshwright;

struct Form {
  std::string_view name;
  std::string_view choices;  // short form; the last key is what the form is about
  bool experts = false;      // of models that have them
};

constexpr Form kForms[] = {
    {"data", "dp=2"},
    {"ZeRO 1", "dp=2,zero=1"},
    {"ZeRO 2", "dp=2,zero=2"},
    {"ZeRO 3", "dp=2,zero=3"},
    {"hybrid ZeRO", "dp=4,zero=3,shard=2"},
    {"pipeline 1F1B", "pp=2,schedule=1f1b"},
    {"pipeline GPipe", "pp=2,schedule=gpipe"},
    {"pipeline interleaved", "pp=2,schedule=interleaved,virtual_stages=2"},
    {"tensor 1D", "tp=2"},
    {"sequence parallel", "tp=2,sequence_parallel=true"},
    {"tensor 2D", "tp=4,tensor=2d"},
    {"tensor 2.5D", "tp=8,depth=2,tensor=2.5d"},
    {"tensor 3D", "tp=8,tensor=3d"},
    {"context ring", "cp=2,context=ring"},
    {"context Ulysses", "cp=2,context=ulysses"},
    {"context ring and Ulysses", "cp=4,context=ring,ulysses=2"},
    {"context double ring", "cp=4,inner_ring=2,context=double-ring"},
    {"ring self-attention", "cp=2,context=rsa"},
    {"experts", "dp=2,ep=2", true},
    {"experts and their tensors", "dp=2,tp=2,sequence_parallel=true,ep=2,etp=2", true},
    {"experts with capacity", "dp=2,ep=2,capacity=1", true},
    {"recompute selective", "recompute=selective"},
    {"recompute full", "recompute=full"},
    {"activations on the host", "offload=activations"},
    {"optimizer on the host", "offload=optimizer"},
};

using Keys = std::map<std::string, std::string, std::less<>>;

Keys keys_of(std::string_view choices) {
  Keys keys;
  for (std::size_t start = 0; start < choices.size();) {
    const std::size_t end = std::min(choices.find(',', start), choices.size());
    const std::string_view pair = choices.substr(start, end - start);
    const std::size_t equals = pair.find('=');
    keys.emplace(pair.substr(0, equals), pair.substr(equals + 1));
    start = end + 1;
  }
  return keys;
}

std::string_view last_key(const Form& form) {
  const std::size_t comma = form.choices.rfind(',');
  const std::string_view pair =
      form.choices.substr(comma == std::string_view::npos ? 0 : comma + 1);
  return pair.substr(0, pair.find('='));
}

Model tiny_model(bool experts) {
  std::string config =
      R"({"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 8,)"
      R"( "num_key_value_heads": 8, "intermediate_size": 48, "vocab_size": 40,)"
      R"( "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "rope_theta": 10000,)"
      R"( "hidden_act": "silu", "tie_word_embeddings": false, )";
  config += experts
                ? R"("model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2,)"
                  R"( "sliding_window": null, "router_aux_loss_coef": 0.0})"
                : R"("model_type": "llama"})";
  return make_model(read_hugging_face(JsonInput::parse(config, "tiny"), "tiny"));
}

constexpr std::int64_t kBatch = 16, kSequence = 16;

Trained one_device(const Model& model) {
  const UserCosts costs(test_cluster());
  const BatchChoice batch{kBatch, kSequence, Precision::FP64};
  return train(model, resolve({}, batch, model, test_cluster(), costs));
}

struct Outcome {
  std::optional<double> error;  // against one device; none: it cannot be planned
  std::string reason;
};

Outcome outcome_of(const std::string& choices, const Model& model, const Trained& expected) {
  try {
    const BatchChoice batch{kBatch, kSequence, Precision::FP64};
    const PlanChoices parsed = parse_plan_choices(choices, {.microbatch = 4});
    const auto problems = check_choices(parsed, batch, model, test_cluster());
    if (!problems.empty()) return {{}, fmt::format("{}", fmt::join(problems, "; "))};
    const UserCosts costs(test_cluster());
    const Trained trained = train(model, resolve(parsed, batch, model, test_cluster(), costs));
    return {std::max({largest_error(expected.losses, trained.losses),
                      largest_error(expected.gradients, trained.gradients),
                      largest_weight_error(expected, trained)}),
            {}};
  } catch (const std::exception& error) {
    return {{}, error.what()};
  }
}

// Keys of a search of this model, on a cluster that has room for everything.
std::set<std::string, std::less<>> searched_keys(const std::string& model) {
  const Bench bench(model, "h100:8x8", "megatron-core");
  const SearchQuestion question{.batch = {64, 4096, Precision::BF16},
                                .defaults = choices_of(bench.setting.defaults, Precision::BF16)};
  std::set<std::string, std::less<>> keys;
  for (const auto& [key, values] : SearchSpace(question, bench.setting).text()) keys.insert(key);
  return keys;
}

// Targets that can be told everything the form says, whatever else they cannot.
std::vector<std::string> targets_of(const Form& form) {
  const ExportBench bench(form.experts ? "mixtral-8x7b" : "llama3-8b", "h100:8x8");
  const Keys keys = keys_of(form.choices);
  std::vector<std::string> targets;
  for (const ExportTarget& target : export_targets()) {
    const PlanChoices choices = carried_defaults(
        target, parse_plan_choices(form.choices, PlanChoices{.microbatch = 1}), bench.setting);
    const auto refusals = refusals_of(target, choices, bench.setting);
    const bool refused = std::ranges::any_of(refusals, [&](const Refusal& refusal) {
      return keys.contains(refusal.field) || refusal.field == "model";
    });
    if (!refused && std::ranges::find(targets, target.name) == targets.end()) {
      targets.push_back(target.name);
    }
  }
  return targets;
}

// Both, where no key is said twice in different ways.
std::optional<std::string> together(const Form& a, const Form& b) {
  Keys keys = keys_of(a.choices);
  for (const auto& [key, value] : keys_of(b.choices)) {
    const auto [entry, added] = keys.emplace(key, value);
    if (!added && entry->second != value) return std::nullopt;
  }
  std::string text;
  for (const auto& [key, value] : keys) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", key, value);
  }
  return text;
}

std::string list_of(const std::vector<std::string>& words) {
  return words.empty() ? "-" : fmt::format("{}", fmt::join(words, ", "));
}

class FormTable {
 public:
  explicit FormTable(bool pairs) : pairs_(pairs) {}

  void print() {
    fmt::print(
        "| form | choices | error against one device | searched | exported to | goes with | not "
        "with |\n|---|---|---|---|---|---|---|\n");
    for (const Form& form : kForms) print_row(form);
  }

 private:
  struct Subject {
    Model model;
    Trained expected;
    std::set<std::string, std::less<>> searched;
  };

  const Subject& subject(bool experts) {
    std::optional<Subject>& one = experts ? experts_ : dense_;
    if (!one) {
      Model model = tiny_model(experts);
      Trained expected = one_device(model);
      one = Subject{std::move(model), std::move(expected),
                    searched_keys(experts ? "mixtral-8x7b" : "llama3-8b")};
    }
    return *one;
  }

  void print_row(const Form& form) {
    const Subject& own = subject(form.experts);
    const Outcome alone = outcome_of(std::string(form.choices), own.model, own.expected);
    std::vector<std::string> with, without;
    for (const Form& other : kForms) {
      if (other.name == form.name) continue;
      const auto both = together(form, other);
      if (!both) continue;
      const Subject& shared = subject(form.experts || other.experts);
      const Outcome outcome = outcome_of(*both, shared.model, shared.expected);
      const bool trains = outcome.error && *outcome.error < 1e-10;
      (trains ? with : without).emplace_back(other.name);
      if (pairs_ && !trains) {
        fmt::print(stderr, "{}: {}\n", *both,
                   outcome.error ? fmt::format("error {:.2g}", *outcome.error) : outcome.reason);
      }
    }
    fmt::print("| {} | `{}` | {} | {} | {} | {} | {} |\n", form.name, form.choices,
               alone.error ? fmt::format("{:.1e}", *alone.error) : "refused: " + alone.reason,
               own.searched.contains(last_key(form)) ? "yes" : "no", list_of(targets_of(form)),
               without.empty() ? "all" : list_of(with), list_of(without));
    std::fflush(stdout);
  }

  const bool pairs_;
  std::optional<Subject> dense_, experts_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::span arguments(argv, static_cast<std::size_t>(argc));
  if (argc > 2 || (argc == 2 && std::string_view(arguments[1]) != "--pairs")) {
    fmt::print(stderr, "usage: forms [--pairs]\n");
    return 2;
  }
  FormTable(argc == 2).print();
}
