// What there is to choose from, in words and in numbers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "costmodel/base/input_error.h"
#include "planner/search/each_choice.h"
#include "planner/search/searched_keys.h"
#include "planner/search/space.h"
#include "simulator/choices/resolve.h"
#include "simulator/choices/stage_axes.h"
#include "simulator/choices/tensor_form.h"

namespace meshwright {

std::vector<std::pair<std::string, std::vector<std::string>>> SearchSpace::text() const {
  std::vector<std::pair<std::string, std::vector<std::string>>> keys;
  const auto add = [&](std::string_view key, std::vector<std::string> values) {
    if (is_pinned(key)) values = {pinned_.at(std::string(key))};
    leave_allowed(key, values);
    keys.emplace_back(std::string(key), std::move(values));
  };
  add("dp", {fmt::format("divisors of {} up to {} devices", batch_.global_batch, devices_)});
  std::vector<std::string> tp = {fmt::format("1 to {}", std::min(widest_, devices_))};
  for (std::int64_t t = 2 * widest_; t <= std::min(widest_sharing_, devices_); t += widest_) {
    tp.push_back(std::to_string(t));
  }
  add("tp", std::move(tp));
  std::vector<std::string> forms = {"1d"};
  if (experts_ <= 1) forms.push_back(wide_ ? "2d and 3d" : "2d and 3d with zero=0 and 1");
  add("tensor", std::move(forms));
  if (experts_ <= 1 && is_wide("summa")) add("summa", {"false", "true"});
  if (experts_ > 1) {
    add("ep", {fmt::format("divisors of {} that groups allow", experts_)});
    add("etp", {"tp", wide_ ? "divisors of tp where the sequence is cut"
                            : "1 where the sequence is cut and ep is a multiple of tp"});
  }
  add("pp", {fmt::format("1 to {}", std::min(layers_, devices_))});
  add("cp", {wide_ ? "divisors of the sequence"
                   : fmt::format("divisors of the sequence that leave {} tokens", kFewestTokens)});
  std::vector<std::string> contexts = {"ring", "ulysses",
                                       "a ring of nodes, within nodes by heads or in a ring"};
  if (wide_) contexts = {"ring", "ulysses", "double-ring", "rsa", "each with ulysses"};
  add("context", std::move(contexts));
  add("place", {"every split of a node among the axes"});
  add("microbatch", {"divisors of a replica's samples"});
  add("sequence_parallel", {"false", "true"});
  add("schedule", {"1f1b", "gpipe", "interleaved"});
  add("virtual_stages", {fmt::format("1 to {} / pp", layers_)});
  add("layers", {"as equal as can be",
                 wide_ ? "so that stages or chunks end together" : "so that stages end together"});
  std::vector<std::string> kept;
  for (const RecomputeChoice& recompute : recomputes_) kept.push_back(to_text(recompute));
  if (kept_.sets.size() > 0) kept.push_back("the first layers of chunks as the next of these");
  if (wide_) kept.insert(kept.end(), {"first:LAYERS", "uniform:LAYERS"});
  add("recompute", std::move(kept));
  add("zero", {"0", "1", "2", "3"});
  add("shard", {"all replicas",
                wide_ ? "divisors of dp" : "with zero=1 and 3 those of a node, of eight nodes"});
  std::vector<std::string> buckets;
  // As the short form has them.
  for (const Bytes bucket : kBuckets) buckets.push_back(fmt::format("{} MiB", bucket / 1_MiB));
  add("bucket", std::move(buckets));
  std::vector<std::string> offloads = {"none"};
  if (has_host_) offloads.push_back("optimizer");
  if (has_host_) {
    offloads.insert(
        offloads.end(),
        {fmt::format("activations and activations+optimizer{}, of all layers or of quarters of "
                     "them",
                     wide_ ? "" : " with one chunk a stage")});
  }
  add("offload", std::move(offloads));
  return keys;
}

// As `text` has it, where all others are forbidden.
std::string SearchSpace::plain_value(std::string_view key) const {
  const std::pair<std::string_view, std::string> values[] = {
      {"tensor", std::string(to_text(plain_.tensor))},
      {"etp", "tp"},
      {"context", std::string(to_text(plain_.context))},
      {"place", "devices in their order"},
      {"microbatch", std::to_string(plain_.microbatch)},
      {"sequence_parallel", fmt::format("{}", plain_.sequence_parallel)},
      {"schedule", std::string(to_text(plain_.schedule))},
      {"layers", "as equal as can be"},
      {"recompute", to_text(plain_.recompute)},
      {"zero", std::to_string(plain_.zero)},
      {"shard", "all replicas"},
      {"bucket", "the software's"},
      {"offload", offload_text(plain_)}};
  for (const auto& [name, value] : values) {
    if (name == key) return value;
  }
  return "1";
}

// What forbids leave of values in words; those that stand for several are left, but for some.
void SearchSpace::leave_allowed(std::string_view name, std::vector<std::string>& values) const {
  const SearchedKey& key = *find_key(name);
  if (forbidden_keys_.contains(std::string(name))) values = {plain_value(name)};
  for (const Forbidden& forbidden : forbidden_) {
    if (forbidden.key != name) continue;
    const auto is_that = [&](const std::string& value) {
      try {
        const PlanChoices one = parse_plan_choices(fmt::format("{}={}", name, value), plain_);
        return is_same(key, one, forbidden.choices);
      } catch (const InputError&) {
        return false;  // words
      }
    };
    if (std::erase_if(values, is_that) == 0) values.push_back("but not " + forbidden.value);
  }
}

std::vector<std::string> SearchSpace::notes() const {
  if (kept_.note.empty() || is_pinned("recompute")) return {};
  return {kept_.note};
}

double SearchSpace::kept_ways(const PlanChoices& partial) const {
  double ways = 0;
  for (const PlanChoices& scheduled : schedules(partial)) {
    const std::vector<PlanChoices> kept = recomputes(scheduled);
    std::int64_t mixed = 0;  // pairs
    for (std::size_t i = 0; i + 1 < kept.size(); ++i) {
      const RecomputeChoice* next = next_kept(kept[i].recompute);
      mixed += next && *next == kept[i + 1].recompute ? 1 : 0;
    }
    const std::int64_t layers = most_layers(scheduled);
    const std::int64_t mixes = (layers - 1) / layers_at_once(layers);
    ways += static_cast<double>(std::ssize(kept) + mixed * mixes);
  }
  return ways;
}

std::optional<double> SearchSpace::size(const std::stop_token& stop) const {
  const auto count = [](const auto& list) { return static_cast<double>(list.size()); };
  // What follows the mesh depends on little of it, unless a target has a say.
  std::map<std::int64_t, double> scheduled;  // by stages, with what layers keep
  // With zero. Of stages only how they lie in a node counts, and on how many devices of a node a
  // replica must be to find nodes enough.
  const std::int64_t node = setting_.cluster.node_types.front().devices;
  const std::int64_t nodes = setting_.cluster.nodes.front().count;
  using DividedKey = std::tuple<std::array<std::int64_t, 4>, TensorForm, std::vector<std::int64_t>,
                                ContextDegrees>;
  std::map<DividedKey, double> divided;
  // By replicas, those in a node and those that share experts out, parts of sequences, and, where
  // any groups share state out, what these must fit into.
  using StatesKey = std::tuple<std::array<std::int64_t, 8>, TensorForm, ContextDegrees>;
  std::map<StatesKey, double> states;
  const auto context_of = [&](const PlanChoices& one) {
    return wide_ ? context_degrees(one) : ContextDegrees{};
  };
  const auto count_states = [&](const PlanChoices& one) {
    const std::int64_t inside = one.place.empty() ? 0 : replicas_in_node(one);
    const std::array<std::int64_t, 8> groups = {one.dp,
                                                inside,
                                                replicas_sharing_experts(one),
                                                one.cp,
                                                wide_ ? one.tp : 1,
                                                wide_ ? one.ep : 1,
                                                wide_ ? expert_tensor_degree(one) : 1};
    const StatesKey key{groups, one.tensor, context_of(one)};
    const auto [ways, unknown] = states.try_emplace(key);
    if (unknown || target_) ways->second = count(zeros(one));
    return ways->second;
  };
  std::map<bool, double> kept;  // whether weights are repeated
  struct Sizes {
    double count = 0;
    std::int64_t first = 0;
  };
  std::map<std::array<std::int64_t, 2>, Sizes> microbatched;  // by replicas and rows
  double size = 0;
  for (const PlanChoices& mesh : meshes(stop)) {
    if (stop.stop_requested()) return std::nullopt;
    const auto [sizes, unsized] =
        microbatched.try_emplace({mesh.dp, tensor_mesh(mesh).batch_parts});
    if (unsized || target_) {
      const auto all = microbatches(mesh);
      sizes->second = {count(all), all.empty() ? 0 : all.front().microbatch};
    }
    if (sizes->second.count == 0) continue;
    PlanChoices one = mesh;
    one.microbatch = sizes->second.first;
    const auto [schedule, unknown] = scheduled.try_emplace(one.pp);
    if (unknown || target_) schedule->second = kept_ways(one);
    const auto [state, first] = kept.try_emplace(repeated_weights(one) > 1);
    if (first || target_) {
      state->second = count(buckets(one));
    }
    const std::int64_t least = device_count(one) / (nodes + 1) + 1;
    const auto [division, other] = divided.try_emplace(
        {{one.dp, one.tp, one.cp, least}, one.tensor, divisors(one.pp, node), context_of(one)});
    if (other || target_) {
      division->second = 0;
      const std::vector<SharedList<NodeShare>> alike = node_shares(one);
      for (const PlanChoices& split : splits(one)) {
        for (PlanChoices& shared : sharings(split)) {
          for (const auto& place : target_ ? node_shares(shared) : alike) {
            shared.place = place;
            division->second += count_states(shared);
          }
        }
      }
    }
    size += sizes->second.count * division->second * schedule->second * state->second;
  }
  return stop.stop_requested() ? std::nullopt : std::optional(size);
}

}  // namespace meshwright
