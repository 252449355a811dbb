#include "planner/search/searched_keys.h"

#include <algorithm>
#include <iterator>

namespace meshwright {
namespace {

constexpr SearchedKey kSearchedKeys[] = {
    {"dp", [](PlanChoices& to, const PlanChoices& from) { to.dp = from.dp; }},
    {"tp", [](PlanChoices& to, const PlanChoices& from) { to.tp = from.tp; }},
    {"tensor",
     [](PlanChoices& to, const PlanChoices& from) {
       to.tensor = from.tensor;
       to.depth = from.depth;
     }},
    {"summa", [](PlanChoices& to, const PlanChoices& from) { to.summa = from.summa; }},
    {"ep", [](PlanChoices& to, const PlanChoices& from) { to.ep = from.ep; }},
    {"etp", [](PlanChoices& to, const PlanChoices& from) { to.etp = from.etp; }},
    {"pp", [](PlanChoices& to, const PlanChoices& from) { to.pp = from.pp; }},
    {"cp", [](PlanChoices& to, const PlanChoices& from) { to.cp = from.cp; }},
    {"context",
     [](PlanChoices& to, const PlanChoices& from) {
       to.context = from.context;
       to.ulysses = from.ulysses;
       to.inner_ring = from.inner_ring;
     }},
    {"place", [](PlanChoices& to, const PlanChoices& from) { to.place = from.place; }},
    {"microbatch",
     [](PlanChoices& to, const PlanChoices& from) { to.microbatch = from.microbatch; }},
    {"sequence_parallel",
     [](PlanChoices& to, const PlanChoices& from) {
       to.sequence_parallel = from.sequence_parallel;
     }},
    {"schedule", [](PlanChoices& to, const PlanChoices& from) { to.schedule = from.schedule; }},
    {"virtual_stages",
     [](PlanChoices& to, const PlanChoices& from) { to.virtual_stages = from.virtual_stages; }},
    {"layers", [](PlanChoices& to, const PlanChoices& from) { to.layers = from.layers; }},
    {"recompute", [](PlanChoices& to, const PlanChoices& from) { to.recompute = from.recompute; }},
    {"zero", [](PlanChoices& to, const PlanChoices& from) { to.zero = from.zero; }},
    {"shard", [](PlanChoices& to, const PlanChoices& from) { to.shard = from.shard; }},
    {"bucket",
     [](PlanChoices& to, const PlanChoices& from) {
       to.bucket = from.bucket;
       to.bucket_per_replica = from.bucket_per_replica;
     }},
    {"offload",
     [](PlanChoices& to, const PlanChoices& from) {
       to.offload_activations = from.offload_activations;
       to.offload_optimizer = from.offload_optimizer;
       to.offloaded_layers = from.offloaded_layers;
     }},
};

}  // namespace

std::span<const SearchedKey> searched_keys() { return kSearchedKeys; }

const SearchedKey* find_key(std::string_view name) {
  const auto found = std::ranges::find(kSearchedKeys, name, &SearchedKey::name);
  return found == std::end(kSearchedKeys) ? nullptr : &*found;
}

bool is_same(const SearchedKey& key, const PlanChoices& a, const PlanChoices& b) {
  PlanChoices copy = a;
  key.copy(copy, b);
  return copy == a;
}

}  // namespace meshwright
