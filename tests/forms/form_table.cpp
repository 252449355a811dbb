#include "tests/forms/form_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>

#include "costmodel/base/input_error.h"
#include "costmodel/model/import/hugging_face.h"
#include "planner/export/export.h"
#include "planner/search/searched_keys.h"
#include "planner/search/space.h"
#include "simulator/lowering/lower.h"
#include "simulator/program/check_program.h"
#include "tests/export/export_bench.h"
#include "tests/planner/random_choices.h"
#include "tests/simulator/small_plans.h"

namespace meshwright {
namespace {

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

std::string last_key(const Form& form) {
  const std::size_t comma = form.choices.rfind(',');
  const std::string_view pair = form.choices.substr(comma == form.choices.npos ? 0 : comma + 1);
  return std::string(pair.substr(0, pair.find('=')));
}

std::string list_of(const std::vector<std::string>& words) {
  return words.empty() ? "-" : fmt::format("{}", fmt::join(words, ", "));
}

// What users have: nodes enough for everything, and sequences long enough to be cut.
struct FormQuestion {
  explicit FormQuestion(bool experts)
      : bench(experts ? "mixtral-8x7b" : "llama3-8b", "h100:8x8", "megatron-core"),
        question{.batch = {64, 8192, Precision::BF16},
                 .defaults = choices_of(bench.setting.defaults, Precision::BF16)} {}

  const Bench bench;
  const SearchQuestion question;
};

// Some plan of the space has what the form's last key says, if it is a key that is decided with
// the mesh.
bool among_meshes(const SearchSpace& space, const SearchedKey& key, const PlanChoices& wanted) {
  return std::ranges::any_of(space.meshes(), [&](const PlanChoices& mesh) {
    if (is_same(key, mesh, wanted) && mesh.cp >= std::min<std::int64_t>(wanted.cp, 2)) return true;
    const auto sizes = space.microbatches(mesh);
    const bool shares = key.name == "ep" || key.name == "etp" || key.name == "sequence_parallel";
    if (sizes.empty() || !shares) return false;
    return std::ranges::any_of(space.splits(sizes.front()), [&](const PlanChoices& split) {
      return std::ranges::any_of(space.sharings(split), [&](const PlanChoices& one) {
        return is_same(key, one, wanted) && !space.places(one).empty();
      });
    });
  });
}

bool in_space(const SearchSpace& space, const SearchedKey& key, const PlanChoices& wanted) {
  const auto decided = [&](const std::vector<PlanChoices>& values) {
    return std::ranges::any_of(values,
                               [&](const PlanChoices& one) { return is_same(key, one, wanted); });
  };
  if (key.name == "zero") return decided(space.zeros(wanted));
  if (key.name == "shard") {
    PlanChoices placed = wanted;  // as many share the state out as a node has
    placed.place = {{"dp", wanted.shard.value_or(wanted.dp)}};
    return decided(space.zeros(placed));
  }
  if (key.name == "schedule" || key.name == "virtual_stages")
    return decided(space.schedules(wanted));
  if (key.name == "recompute") return decided(space.recomputes(wanted));
  if (key.name == "offload") return decided(space.offloads(wanted));
  return among_meshes(space, key, wanted);
}

std::string searched_of(const Form& form, const FormQuestion& asked) {
  const PlanChoices wanted = parse_plan_choices(form.choices, asked.question.defaults);
  const SearchedKey* const key = find_key(last_key(form));
  SearchQuestion wide = asked.question;
  wide.wide = true;
  for (const auto& [question, answer] : {std::pair(&asked.question, "yes"), {&wide, "wide"}}) {
    const SearchSpace space(*question, asked.bench.setting);
    if (key && in_space(space, *key, wanted)) return answer;
  }
  SearchQuestion pinned = asked.question;
  for (const auto& [name, value] : keys_of(form.choices)) pinned.pins.push_back({name, value});
  try {
    const SearchSpace space(pinned, asked.bench.setting);
    return space.meshes().empty() ? "no" : "pinned";
  } catch (const InputError&) {
    return "no";
  }
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

}  // namespace

const std::vector<Form>& all_forms() {
  static const std::vector<Form> forms = {
      {"data", "dp=2", "bytes sent", "data parallelism reduces every gradient once a step*"},
      {"ZeRO 1", "dp=2,zero=1", "state", "ZeRO divides what a device keeps of each parameter"},
      {"ZeRO 2", "dp=2,zero=2", "bytes sent", "ZeRO-2 reduces every gradient once*"},
      {"ZeRO 3", "dp=2,zero=3", "bytes sent", "ZeRO-3 gathers every weight*"},
      {"hybrid ZeRO", "dp=4,zero=3,shard=2", "state, bytes sent",
       "replicas in groups share state out within them*"},
      {"pipeline 1F1B", "pp=2,schedule=1f1b", "bubble", "lowered pipelines of equal stages*"},
      {"pipeline GPipe", "pp=2,schedule=gpipe", "in flight", "micro-batches in flight*"},
      {"pipeline interleaved", "pp=2,virtual_stages=2,schedule=interleaved", "bubble",
       "with v chunks a stage the bubble*"},
      {"tensor 1D", "tp=2", "bytes sent", "tensor parallelism moves the published volume"},
      {"sequence parallel", "tp=2,sequence_parallel=true", "bytes sent",
       "sequence parallelism gathers and scatters*"},
      {"tensor 2D", "tp=4,tensor=2d", "bytes sent", "squares of tensor devices send*"},
      {"tensor 2D, SUMMA", "tp=4,tensor=2d,summa=true", "bytes sent", "products part by part*"},
      {"tensor 2.5D", "tp=8,depth=2,tensor=2.5d", "as 2D", "layers of squares run*"},
      {"tensor 3D", "tp=8,tensor=3d", "bytes sent", "cubes of tensor devices send*"},
      {"context ring", "cp=2,context=ring", "bytes sent", "a ring passes keys and values on*"},
      {"context Ulysses", "cp=2,context=ulysses", "bytes sent", "heads are exchanged four times*"},
      {"context ring and Ulysses", "cp=4,ulysses=2,context=ring", "bytes sent",
       "heads within a ring are exchanged*"},
      {"context double ring", "cp=4,inner_ring=2,context=double-ring", "bytes sent",
       "a ring passes keys and values on*"},
      {"ring self-attention", "cp=2,context=rsa", "bytes sent", "ring self-attention brings*"},
      {"experts", "dp=2,ep=2", "bytes sent", "experts take four all-to-alls a layer*", true},
      {"experts and their tensors", "dp=2,tp=4,sequence_parallel=true,ep=2,etp=2", "groups",
       "a device holds its experts alone*", true},
      {"experts with capacity", "dp=2,ep=2,capacity=1", "rows",
       "rows that come to a device have room*", true},
      {"recompute selective", "recompute=selective", "kept",
       "unfused kernels in two bytes keep the published*"},
      {"recompute full", "recompute=full", "kept", "another layer needs as much more memory*"},
      {"activations on the host", "offload=activations", "peak", "the peak drops by exactly*"},
      {"optimizer on the host", "offload=optimizer", "state",
       "the optimizer's state is on the device only*"},
  };
  return forms;
}

Model tiny_model(bool experts) {
  std::string config =
      R"({"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 8,)"
      R"( "num_key_value_heads": 8, "intermediate_size": 48, "vocab_size": 40,)"
      R"( "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "rope_theta": 10000,)"
      R"( "hidden_act": "silu", "tie_word_embeddings": false, )";
  config += experts
                ? R"("model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2,)"
                  R"( "sliding_window": null, "router_aux_loss_coef": 0.1,)"
                  R"( "output_router_logits": true})"
                : R"("model_type": "llama"})";
  return make_model(read_hugging_face(JsonInput::parse(config, "tiny"), "tiny"));
}

Plan plan_of_form(const std::string& choices, const Model& model) {
  const BatchChoice batch{kFormBatch, kFormSequence, Precision::FP64};
  const PlanChoices parsed = parse_plan_choices(choices, {.microbatch = 4});
  const auto problems = check_choices(parsed, batch, model, test_cluster());
  if (!problems.empty()) throw InputError(fmt::format("{}", fmt::join(problems, "; ")));
  return resolve(parsed, batch, model, test_cluster(), UserCosts(test_cluster()));
}

std::string refusal_of(const std::string& choices, const Model& model) {
  try {
    const Plan plan = plan_of_form(choices, model);
    auto problems = check_plan(plan, model, test_cluster());
    if (problems.empty()) problems = check_programs(lower_all(model, plan));
    return fmt::format("{}", fmt::join(problems, "; "));
  } catch (const InputError& error) {
    return error.what();
  }
}

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

const Model& FormTable::model(bool experts) {
  std::optional<Model>& one = experts ? experts_ : dense_;
  if (!one) one = tiny_model(experts);
  return *one;
}

const std::string& FormTable::refusal(const std::string& choices, bool experts) {
  const auto [entry, added] = refusals_.try_emplace({choices, experts});
  if (added) entry->second = refusal_of(choices, model(experts));
  return entry->second;
}

FormRow FormTable::row(const Form& form) {
  FormRow row{.name = std::string(form.name),
              .choices = std::string(form.choices),
              .lowers = refusal(std::string(form.choices), form.experts).empty(),
              .closed_form = std::string(form.closed_form),
              .searched = searched_of(form, FormQuestion(form.experts)),
              .targets = targets_of(form),
              .refused_with = {}};
  for (const Form& other : all_forms()) {
    const auto both = other.name == form.name ? std::nullopt : together(form, other);
    if (both && !refusal(*both, form.experts || other.experts).empty()) {
      row.refused_with.emplace_back(other.name);
    }
  }
  return row;
}

std::string line_of(const FormRow& row, const std::string& trained) {
  return fmt::format("| {} | `{}` | {} | {} | {} | {} | {} | {} |\n", row.name, row.choices,
                     row.lowers ? "yes" : "no", row.closed_form, trained, row.searched,
                     list_of(row.targets), list_of(row.refused_with));
}

std::vector<std::vector<std::string>> table_cells(const std::string& document) {
  std::vector<std::vector<std::string>> lines;
  const std::size_t head = document.find(kFormTableHead);
  if (head == document.npos) return lines;
  for (std::size_t at = head + kFormTableHead.size(); document.substr(at, 2) == "| ";) {
    const std::size_t end = std::min(document.find('\n', at), document.size());
    std::vector<std::string> cells;
    for (std::size_t start = at + 2; start < end;) {
      const std::size_t stop = std::min(document.find(" |", start), end);
      cells.push_back(document.substr(start, stop - start));
      start = stop + 3;
    }
    lines.push_back(std::move(cells));
    at = end + 1;
  }
  return lines;
}

}  // namespace meshwright
