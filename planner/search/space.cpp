#include "planner/search/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "costmodel/base/input_error.h"
#include "planner/search/each_choice.h"
#include "planner/search/searched_keys.h"
#include "simulator/choices/model_layers.h"
#include "simulator/choices/stage_axes.h"

namespace meshwright {
namespace {

// The smallest of the dimensions that tensor parallelism cuts: it cannot be cut into more parts.
std::int64_t widest_tensor(const Model& model) {
  std::int64_t widest = std::int64_t{1} << 20;
  for (const Dim& dim : model.dims) {
    if (dim.name == "heads" || dim.name == "kv_heads") widest = std::min(widest, dim.size);
  }
  return widest;
}

// The most devices among which several have the same head of keys and values; 0: none.
std::int64_t widest_sharing(const Model& model) {
  return size_of_dim(model, "kv_heads") * size_of_dim(model, "queries_per_head");
}

std::int64_t largest_node(const Cluster& cluster) {
  std::int64_t node = 0;
  for (const NodeType& type : cluster.node_types) node = std::max(node, type.devices);
  return node;
}

std::vector<std::string_view> names_of_keys() {
  std::vector<std::string_view> names;
  for (const SearchedKey& key : searched_keys()) names.push_back(key.name);
  return names;
}

}  // namespace

SearchSpace::SearchSpace(const SearchQuestion& question, const Setting& setting)
    : batch_(question.batch),
      target_(question.target),
      setting_(setting),
      base_(question.defaults),
      plain_(question.defaults),
      wide_(question.wide),
      devices_(device_count(setting.cluster)),
      layers_(std::max<std::int64_t>(1, find_layers(setting.model).count())),
      widest_(widest_tensor(setting.model)),
      widest_sharing_(widest_sharing(setting.model)),
      experts_(std::max<std::int64_t>(1, size_of_dim(setting.model, "experts"))) {
  // Across nodes it seldom pays.
  if (!wide_) widest_sharing_ = std::min(widest_sharing_, largest_node(setting.cluster));
  for (const KeyValue& pin : question.pins) {
    if (!pin.value) throw InputError(fmt::format("pin {}: expected key=value", printable(pin.key)));
    base_ = parse_plan_choices(pin.key + "=" + *pin.value, base_);
    pinned_[pin.key] = *pin.value;
  }
  for (const KeyValue& forbid : question.forbids) {
    if (!find_key(forbid.key)) {
      throw InputError(fmt::format("forbid {}: expected a key that is searched: {}",
                                   printable(forbid.key), fmt::join(names_of_keys(), ", ")));
    }
    if (!forbid.value) {
      forbidden_keys_.insert(forbid.key);
      continue;
    }
    forbidden_.push_back(
        {forbid.key, *forbid.value, parse_plan_choices(forbid.key + "=" + *forbid.value, plain_)});
  }
  PlanChoices one = base_;
  one.tp = one.cp = 1;
  one.tensor = TensorForm::OneD;
  one.depth = 1;
  one.ep = 1;
  one.etp.reset();
  one.summa = false;
  one.context = Context::Ring;
  one.ulysses.reset();
  one.inner_ring.reset();
  one.microbatch = 1;
  one.place.clear();
  one.sequence_parallel = false;
  one.recompute = {};
  kept_ = kept_sets(one, batch_, setting, question.solver_folders);
  recomputes_ = kept_.sets;
  recomputes_.insert(recomputes_.begin(), {Recompute::None});
  recomputes_.push_back({Recompute::Uniform});
  if (wide_) {
    recomputes_.push_back({Recompute::Selective});
    recomputes_.push_back({Recompute::Products});
  } else if (target_) {
    recomputes_.insert(recomputes_.end(), target_->recomputes.begin(), target_->recomputes.end());
  }
  has_host_ = std::ranges::all_of(setting.cluster.node_types,
                                  [](const NodeType& node) { return node.host.has_value(); });
}

std::vector<PlanChoices> SearchSpace::allowed(std::string_view name,
                                              std::vector<PlanChoices> values) const {
  const SearchedKey& key = *find_key(name);
  if (is_pinned(name)) {
    values.resize(std::min<std::size_t>(values.size(), 1));
    for (PlanChoices& value : values) key.copy(value, base_);
  }
  std::erase_if(values, [&](const PlanChoices& value) {
    if (forbidden_keys_.contains(std::string(name)) && !is_same(key, value, plain_)) return true;
    return std::ranges::any_of(forbidden_, [&](const Forbidden& forbidden) {
      return forbidden.key == name && is_same(key, value, forbidden.choices);
    });
  });
  if (target_) {
    std::erase_if(values, [&](const PlanChoices& value) { return target_->refuses(name, value); });
  }
  return values;
}

std::vector<PlanChoices> SearchSpace::schedules(const PlanChoices& partial) const {
  std::vector<PlanChoices> all;
  const auto add = [&](Schedule schedule, std::int64_t chunks) {
    PlanChoices one = partial;
    one.schedule = schedule;
    one.virtual_stages = chunks;
    for (const PlanChoices& scheduled : allowed("schedule", {one})) {
      if (scheduled.schedule != schedule) continue;
      for (PlanChoices& staged : allowed("virtual_stages", {scheduled})) {
        if (staged.virtual_stages == chunks) all.push_back(std::move(staged));
      }
    }
  };
  add(Schedule::OneForwardOneBackward, 1);
  if (partial.pp > 1 || is_wide("schedule")) add(Schedule::GPipe, 1);
  for (std::int64_t chunks = 2; partial.pp > 1 && partial.pp * chunks <= layers_; ++chunks) {
    add(Schedule::Interleaved, chunks);
    if (is_wide("virtual_stages")) add(Schedule::GPipe, chunks);
  }
  return all;
}

// As equal as can be, and so that stages end together; or chunks, as if each were a stage.
std::vector<PlanChoices> SearchSpace::layerings(const PlanChoices& partial, Bounds& bounds) const {
  std::vector<std::vector<std::int64_t>> layers = {{}};
  PlanChoices chunks = partial;
  chunks.pp *= partial.virtual_stages;
  chunks.virtual_stages = 1;
  const bool cut = chunks.pp > 1 && chunks.pp <= layers_;
  if (cut && (partial.virtual_stages == 1 || wide_)) {
    const auto balanced = bounds.balanced_layers(chunks);
    if (balanced != equal_layers(layers_, chunks.pp)) layers.push_back(balanced);
  }
  if (const auto own = target_ ? target_->layers(partial) : std::nullopt) layers = {*own};
  auto all = allowed(
      "layers", each(partial, layers, [](PlanChoices& c, const auto& value) { c.layers = value; }));
  std::erase_if(all, [&](const PlanChoices& one) { return !has_chunks(one); });
  return all;
}

// Those that are pinned may be any.
bool SearchSpace::has_chunks(const PlanChoices& partial) const {
  PlanChoices chunks;  // what else is chosen does not count
  chunks.pp = partial.pp;
  chunks.virtual_stages = partial.virtual_stages;
  if (is_pinned("layers")) chunks.layers = base_.layers;
  if (chunks.layers.empty() && chunks.virtual_stages == 1) return chunks.pp <= layers_;
  return check_choices(chunks, batch_, setting_.model, setting_.cluster).empty();
}

std::vector<Staging> SearchSpace::stagings(const PlanChoices& partial) const {
  std::vector<Staging> ways;
  for (const PlanChoices& one : schedules(partial)) {
    const std::int64_t chunks = one.pp * one.virtual_stages;
    // Of several chunks that are unequal nothing is known: no way is no bound.
    const bool given = is_pinned("layers") || (target_ && target_->layers(one));
    if (wide_ && one.pp > 1 && one.virtual_stages > 1 && !given) return {};
    if (!ways.empty() && ways.back().virtual_stages == one.virtual_stages) continue;
    Staging way{one.virtual_stages, equal_layers(layers_, chunks)};
    if (one.pp > 1 && one.virtual_stages == 1) way.layers.reset();
    if (const auto own = target_ ? target_->layers(one) : std::nullopt) way.layers = *own;
    if (is_pinned("layers")) way.layers = base_.layers;
    if (way.layers && std::ssize(*way.layers) != chunks) continue;
    ways.push_back(std::move(way));
  }
  return ways;
}

std::vector<PlanChoices> SearchSpace::recomputes(const PlanChoices& partial) const {
  std::vector<RecomputeChoice> ways = recomputes_;
  if (wide_) add_whole_layers(ways, partial);
  return allowed("recompute",
                 each(partial, ways, [](PlanChoices& c, const auto& kind) { c.recompute = kind; }));
}

// Some layers of every chunk wholly, or all of them in segments of several.
void SearchSpace::add_whole_layers(std::vector<RecomputeChoice>& recomputes,
                                   const PlanChoices& partial) const {
  const std::int64_t layers = most_layers(partial), step = layers_at_once(layers);
  for (std::int64_t some = step; some < layers; some += step) {
    recomputes.push_back({Recompute::First, some});
  }
  for (std::int64_t segment = 2; segment <= layers; segment *= 2) {
    recomputes.push_back({Recompute::Uniform, segment});
  }
}

const RecomputeChoice* SearchSpace::next_kept(const RecomputeChoice& recompute) const {
  const auto found = std::ranges::find(kept_.sets, recompute);
  const bool known = recompute.kind == Recompute::None || found != kept_.sets.end();
  const auto next = found == kept_.sets.end() ? kept_.sets.begin() : found + 1;
  return known && next != kept_.sets.end() ? &*next : nullptr;
}

std::int64_t SearchSpace::most_layers(const PlanChoices& partial) const {
  return std::ranges::max(layers_of_chunks(partial, layers_));
}

std::optional<PlanChoices> SearchSpace::dropping_more(const PlanChoices& partial) const {
  if (partial.offload_activations || is_pinned("recompute")) return std::nullopt;
  const RecomputeChoice& own = partial.recompute;
  PlanChoices more = partial;
  if (own.kind != Recompute::Drop || own.layers == 0) {
    const RecomputeChoice* next = next_kept(own);
    if (!next) return std::nullopt;
    more.recompute = {Recompute::Drop, 0, next->dropped, own.dropped};
  }
  const std::int64_t layers = most_layers(partial);
  more.recompute.layers += layers_at_once(layers);
  if (more.recompute.layers >= layers || allowed("recompute", {more}).empty()) return std::nullopt;
  return more;
}

// With fewer copies a plan may be sooner though more is computed again: each is a set of its own.
std::vector<PlanChoices> SearchSpace::partly_offloaded(const PlanChoices& partial) const {
  std::vector<PlanChoices> all;
  if (!partial.offload_activations) return all;
  const std::int64_t layers = most_layers(partial), step = layers_at_once(layers);
  const auto add = [&](std::string_view key, PlanChoices one) {
    if (!is_pinned(key) && !allowed(key, {one}).empty()) all.push_back(std::move(one));
  };
  for (const PlanChoices& kept : recomputes(partial)) {
    const RecomputeChoice* next = next_kept(kept.recompute);
    for (std::int64_t some = step; some < layers; some += step) {
      PlanChoices moved = kept, mixed = kept;
      moved.offloaded_layers = some;
      add("offload", std::move(moved));
      if (!next) continue;
      mixed.recompute = {Recompute::Drop, some, next->dropped, kept.recompute.dropped};
      add("recompute", std::move(mixed));
    }
  }
  return all;
}

std::vector<RecomputeChoice> SearchSpace::recompute_choices() const {
  return is_pinned("recompute") ? std::vector{base_.recompute} : recomputes_;
}

// Activations of stages with several chunks only in wide spaces: copies of many chunks queue up,
// and bounds say little about how long.
std::vector<PlanChoices> SearchSpace::offloads(const PlanChoices& partial) const {
  struct Offload {
    bool activations, optimizer;
  };
  std::vector<Offload> offloads = {{false, false}};
  if (has_host_) offloads.push_back({false, true});
  if (has_host_ && (partial.virtual_stages == 1 || wide_)) {
    offloads.push_back({true, false});
    offloads.push_back({true, true});
  }
  return allowed("offload", each(partial, offloads, [](PlanChoices& c, const Offload& value) {
                   c.offload_activations = value.activations;
                   c.offload_optimizer = value.optimizer;
                 }));
}

std::vector<PlanChoices> SearchSpace::activation_offloads(const PlanChoices& partial) const {
  std::vector<PlanChoices> kinds;
  for (PlanChoices& one : offloads(partial)) {
    const auto same =
        std::ranges::find(kinds, one.offload_activations, &PlanChoices::offload_activations);
    if (same == kinds.end()) {
      kinds.push_back(std::move(one));
    } else if (!one.offload_optimizer) {
      *same = std::move(one);
    }
  }
  return kinds;
}

// ZeRO is decided before, so a target is asked about it again.
std::vector<PlanChoices> SearchSpace::optimizer_offloads(const PlanChoices& partial) const {
  std::vector<PlanChoices> kinds = offloads(partial);
  std::erase_if(kinds, [&](const PlanChoices& one) {
    return one.offload_activations != partial.offload_activations || allowed("zero", {one}).empty();
  });
  return kinds;
}

// Of squares and cubes that sum and gather for every micro-batch bounds say too little to leave
// them at once.
std::vector<PlanChoices> SearchSpace::zeros(const PlanChoices& partial) const {
  const bool once = partial.tensor != TensorForm::OneD && !is_wide("tensor");
  std::vector<int> stages = {0};
  if (repeated_weights(partial) > 1) stages = once ? std::vector{0, 1} : std::vector{0, 1, 2, 3};
  std::vector<PlanChoices> all;
  for (const PlanChoices& state :
       allowed("zero", each(partial, stages, [](PlanChoices&c, int value) { c.zero = value; }))) {
    for (PlanChoices& shared : allowed("shard", shards(state))) all.push_back(std::move(shared));
  }
  return all;
}

// Among all replicas, among those of a node, or of eight: with more, sums take hardly less than
// with all. In one node little is gained. ZeRO-2 sums for every micro-batch and needs more memory
// than ZeRO-3, and of sums where replicas share experts out bounds say nothing.
std::vector<PlanChoices> SearchSpace::shards(const PlanChoices& state) const {
  if (base_.shard && state.dp % *base_.shard != 0) return {};
  std::vector<PlanChoices> all = {state};
  all.back().shard = base_.shard;
  const auto add = [&](std::int64_t shard) {
    if (shard == 1 || shard >= state.dp || state.dp % shard != 0) return;
    PlanChoices one = state;
    one.shard = shard;
    if (!nesting_problem(one, setting_.model)) all.push_back(std::move(one));
  };
  if (state.zero == 0) return all;
  if (wide_) {
    for (const std::int64_t shard : divisors(state.dp, state.dp)) add(shard);
    return all;
  }
  const bool known = state.zero != 2 && replicas_sharing_experts(state) == 1;
  if (state.place.empty() || !known) return all;
  const std::int64_t node = replicas_in_node(state);
  for (const std::int64_t shard : {node, 8 * node}) add(shard);
  return all;
}

std::vector<PlanChoices> SearchSpace::buckets(const PlanChoices& partial) const {
  std::vector<Bytes> buckets = {base_.bucket};
  if (repeated_weights(partial) > 1) buckets.assign(std::begin(kBuckets), std::end(kBuckets));
  if (const auto own = target_ ? target_->bucket(partial) : std::nullopt) buckets = {*own};
  return allowed("bucket", each(partial, buckets, [](PlanChoices& c, Bytes value) {
                   c.bucket = value;
                   if (repeated_weights(c) > 1) c.bucket_per_replica = Bytes();
                 }));
}

PlanChoices SearchSpace::in_largest_buckets(const PlanChoices& choices) const {
  const std::vector<PlanChoices> all = buckets(choices);
  return all.empty() ? choices : *std::ranges::max_element(all, {}, bucket_of);
}

PlanChoices SearchSpace::leanest(PlanChoices partial) const {
  int most = 0;
  for (const PlanChoices& state : zeros(partial)) most = std::max(most, state.zero);
  partial.zero = most;
  return leanest_optimizer(std::move(partial));
}

PlanChoices SearchSpace::leanest_optimizer(PlanChoices partial) const {
  for (const PlanChoices& one : optimizer_offloads(partial)) {
    partial.offload_optimizer = partial.offload_optimizer || one.offload_optimizer;
  }
  return partial;
}

}  // namespace meshwright
