#include "planner/search/space.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/base/input_error.h"
#include "planner/search/kept_sets.h"
#include "simulator/choices/model_layers.h"
#include "simulator/choices/stage_axes.h"
#include "simulator/choices/tensor_form.h"

namespace meshwright {
namespace {

// Of squares and cubes of tensor devices: larger ones are searched where they are pinned.
constexpr std::int64_t kMostColumns = 8;

// Of a device's part of the sequence, where that is cut.
constexpr std::int64_t kFewestTokens = 2048;

constexpr Bytes kBuckets[] = {25_MiB, 100_MiB, 400_MiB, 1600_MiB};

// A key of the short form that is searched: its value moves from one set of choices to another.
struct SearchedKey {
  std::string_view name;
  void (*copy)(PlanChoices& to, const PlanChoices& from);
};

constexpr SearchedKey kSearchedKeys[] = {
    {"dp", [](PlanChoices& to, const PlanChoices& from) { to.dp = from.dp; }},
    {"tp", [](PlanChoices& to, const PlanChoices& from) { to.tp = from.tp; }},
    {"tensor",
     [](PlanChoices& to, const PlanChoices& from) {
       to.tensor = from.tensor;
       to.depth = from.depth;
     }},
    {"ep", [](PlanChoices& to, const PlanChoices& from) { to.ep = from.ep; }},
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
    {"bucket",
     [](PlanChoices& to, const PlanChoices& from) {
       to.bucket = from.bucket;
       to.bucket_per_replica = from.bucket_per_replica;
     }},
    {"offload",
     [](PlanChoices& to, const PlanChoices& from) {
       to.offload_activations = from.offload_activations;
       to.offload_optimizer = from.offload_optimizer;
     }},
};

const SearchedKey* find_key(std::string_view name) {
  const auto found = std::ranges::find(kSearchedKeys, name, &SearchedKey::name);
  return found == std::end(kSearchedKeys) ? nullptr : &*found;
}

bool is_same(const SearchedKey& key, const PlanChoices& a, const PlanChoices& b) {
  PlanChoices copy = a;
  key.copy(copy, b);
  return copy == a;
}

std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t most) {
  std::vector<std::int64_t> found;
  for (std::int64_t d = 1; d <= std::min(number, most); ++d) {
    if (number % d == 0) found.push_back(d);
  }
  return found;
}

// The smallest of the dimensions that tensor parallelism cuts: it cannot be cut into more parts.
std::int64_t widest_tensor(const Model& model) {
  std::int64_t widest = std::int64_t{1} << 20;
  for (const Dim& dim : model.dims) {
    if (dim.name == "heads" || dim.name == "kv_heads") widest = std::min(widest, dim.size);
  }
  return widest;
}

// 1 where there are none.
std::int64_t count_experts(const Model& model) {
  const auto found = std::ranges::find(model.dims, "experts", &Dim::name);
  return found == model.dims.end() ? 1 : found->size;
}

// The most devices of a node among which several have the same head of keys and values; 0: none.
std::int64_t widest_sharing(const Model& model, const Cluster& cluster) {
  const auto size = [&](std::string_view name) {
    const auto found = std::ranges::find(model.dims, name, &Dim::name);
    return found == model.dims.end() ? std::int64_t{0} : found->size;
  };
  std::int64_t node = 0;
  for (const NodeType& type : cluster.node_types) node = std::max(node, type.devices);
  return std::min(node, size("kv_heads") * size("queries_per_head"));
}

// As many as there are heads to cut, or multiples of them that share heads, squares with as many
// columns, and cubes.
std::vector<std::int64_t> tensor_degrees(std::int64_t widest, std::int64_t sharing,
                                         std::int64_t most) {
  std::set<std::int64_t> degrees;
  for (std::int64_t t = 2 * widest; t <= std::min(sharing, most); t += widest) degrees.insert(t);
  for (std::int64_t side = 1; side <= std::min(widest, most); ++side) {
    degrees.insert(side);
    if (side > kMostColumns) continue;
    if (side <= most / side) degrees.insert(side * side);
    if (side <= most / side / side && side * side <= widest) degrees.insert(side * side * side);
  }
  return {degrees.begin(), degrees.end()};
}

template <class Value, class Set>
std::vector<PlanChoices> each(const PlanChoices& from, const std::vector<Value>& values, Set set) {
  std::vector<PlanChoices> all;
  for (const Value& value : values) {
    all.push_back(from);
    set(all.back(), value);
  }
  return all;
}

}  // namespace

SearchSpace::SearchSpace(const SearchQuestion& question, const Setting& setting)
    : batch_(question.batch),
      target_(question.target),
      setting_(setting),
      base_(question.defaults),
      plain_(question.defaults),
      devices_(device_count(setting.cluster)),
      layers_(std::max<std::int64_t>(1, find_layers(setting.model).count())),
      widest_(widest_tensor(setting.model)),
      widest_sharing_(widest_sharing(setting.model, setting.cluster)),
      experts_(count_experts(setting.model)) {
  for (const KeyValue& pin : question.pins) {
    if (!pin.value) throw InputError(fmt::format("pin {}: expected key=value", printable(pin.key)));
    base_ = parse_plan_choices(pin.key + "=" + *pin.value, base_);
    pinned_[pin.key] = *pin.value;
  }
  // Bounds of products part by part may lie above what is simulated.
  if (base_.summa) throw InputError("pin summa=true: it can be simulated, but is not searched");
  for (const KeyValue& forbid : question.forbids) {
    if (!find_key(forbid.key)) {
      throw InputError(fmt::format("forbid {}: it is not searched", printable(forbid.key)));
    }
    if (!forbid.value) {
      forbidden_keys_.insert(forbid.key);
      continue;
    }
    forbidden_.emplace_back(forbid.key,
                            parse_plan_choices(forbid.key + "=" + *forbid.value, plain_));
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
  recomputes_ = kept_sets(one, batch_, setting);
  recomputes_.insert(recomputes_.begin(), {Recompute::None});
  recomputes_.push_back({Recompute::Uniform});
  if (target_) {
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
    return std::ranges::any_of(forbidden_, [&](const auto& forbidden) {
      return forbidden.first == name && is_same(key, value, forbidden.second);
    });
  });
  if (target_) {
    std::erase_if(values, [&](const PlanChoices& value) { return target_->refuses(name, value); });
  }
  return values;
}

std::vector<PlanChoices> SearchSpace::meshes() const {
  std::vector<PlanChoices> meshes;
  const auto numbers = [](std::int64_t most) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 1; i <= most; ++i) all.push_back(i);
    return all;
  };
  PlanChoices start = base_;
  start.dp = start.tp = start.pp = start.cp = 1;
  const auto dp = each(start, divisors(batch_.global_batch, devices_),
                       [](PlanChoices& c, std::int64_t value) { c.dp = value; });
  for (const PlanChoices& replicas : allowed("dp", dp)) {
    const auto tp = each(replicas, tensor_degrees(widest_, widest_sharing_, devices_ / replicas.dp),
                         [](PlanChoices& c, std::int64_t value) { c.tp = value; });
    for (const PlanChoices& tensor : tensors(allowed("tp", tp))) {
      const std::int64_t left = devices_ / (tensor.dp * tensor.tp);
      const auto pp = each(tensor, numbers(std::min(left, layers_)),
                           [](PlanChoices& c, std::int64_t value) { c.pp = value; });
      for (const PlanChoices& mesh : allowed("pp", pp)) {
        if (device_count(mesh) <= devices_) add_contexts(meshes, mesh);
      }
    }
  }
  return meshes;
}

// Cubes where they are pinned. Not layers of squares: they have the steps of squares with that many
// times the replicas, bit by bit, where these have what is left of the micro-batch.
std::vector<PlanChoices> SearchSpace::tensors(const std::vector<PlanChoices>& degrees) const {
  std::vector<PlanChoices> all;
  for (const PlanChoices& degree : degrees) {
    // Squares and cubes where they are pinned: bounds do not know yet that some of their transfers
    // wait for kernels, and were seen above a step.
    PlanChoices line = degree;
    line.tensor = TensorForm::OneD;
    line.depth = 1;
    for (PlanChoices& one : allowed("tensor", {line})) {
      if (is_possible(one)) all.push_back(std::move(one));
    }
  }
  return all;
}

// Whether heads are enough for the devices, and a replica's samples for its rows. A degree that is
// pinned is asked about in any case, to hear why not.
bool SearchSpace::is_possible(const PlanChoices& tensor) const {
  Reasons problems;
  PlanChoices one = tensor;
  one.microbatch = batch_.global_batch / one.dp;
  one.sequence_parallel = false;
  check_tensor(problems, one, batch_);
  if (!problems.empty()) return false;
  const bool line = one.tensor == TensorForm::OneD;
  if (line && one.tp % widest_ == 0 && one.tp <= widest_sharing_) return true;
  const TensorMesh mesh = tensor_mesh(one);
  const std::int64_t side = mesh.axes.back().size;
  if (is_pinned("tp")) return true;
  const std::int64_t heads = one.tensor == TensorForm::ThreeD ? side * side : side;
  return heads <= widest_ && (line || side <= kMostColumns);
}

// Parts of the sequence with tokens enough to be worth a device, and the ways to attend to all of
// them: rings and heads as far as there are heads, both where nodes have room for some.
void SearchSpace::add_contexts(std::vector<PlanChoices>& meshes, const PlanChoices& mesh) const {
  std::vector<std::int64_t> degrees = {1};
  const bool line = mesh.tensor == TensorForm::OneD;
  for (const std::int64_t cp : divisors(batch_.sequence / 2, devices_ / device_count(mesh))) {
    if (line && cp > 1 && batch_.sequence / cp >= kFewestTokens) degrees.push_back(cp);
  }
  const auto cut = each(mesh, degrees, [](PlanChoices& c, std::int64_t value) { c.cp = value; });
  for (const PlanChoices& one : allowed("cp", cut)) {
    if (device_count(one) > devices_) continue;
    for (PlanChoices& way : allowed("context", contexts_of(one))) meshes.push_back(std::move(way));
  }
}

std::vector<PlanChoices> SearchSpace::contexts_of(const PlanChoices& mesh) const {
  std::vector<PlanChoices> ways = {mesh};
  if (is_pinned("context") || is_pinned("ulysses") || is_pinned("inner_ring")) return ways;
  ways.back().context = Context::Ring;
  ways.back().ulysses.reset();
  ways.back().inner_ring.reset();
  if (mesh.cp == 1) return ways;
  const auto add = [&](Context context) -> PlanChoices& {
    ways.push_back(ways.front());
    ways.back().context = context;
    return ways.back();
  };
  if (mesh.tp * mesh.cp <= widest_) add(Context::Ulysses);
  const std::int64_t inside = setting_.cluster.node_types.front().devices / mesh.tp;
  if (inside <= 1 || inside >= mesh.cp || mesh.cp % inside != 0) return ways;
  add(Context::DoubleRing).inner_ring = inside;
  if (mesh.tp * inside <= widest_) add(Context::Ring).ulysses = inside;
  return ways;
}

std::vector<PlanChoices> SearchSpace::microbatches(const PlanChoices& mesh) const {
  const std::int64_t rows = tensor_mesh(mesh).batch_parts;
  if (batch_.global_batch % (mesh.dp * rows) != 0) return {};
  const std::int64_t samples = batch_.global_batch / mesh.dp;
  std::vector<std::int64_t> wholes = divisors(samples, samples);
  std::erase_if(wholes, [&](std::int64_t whole) { return whole % rows != 0; });
  auto sizes =
      allowed("microbatch",
              each(mesh, wholes, [](PlanChoices& c, std::int64_t value) { c.microbatch = value; }));
  std::erase_if(sizes, [&](const PlanChoices& one) {
    return batch_problem(batch_.global_batch, one.dp, one.microbatch).has_value();
  });
  return sizes;
}

// Factors, not permutations: what stands how in a node does not matter, only how much of each axis
// does. Each fills the node as far as the degrees go.
std::vector<std::vector<NodeShare>> SearchSpace::places_of(const PlanChoices& mesh) const {
  std::vector<std::vector<NodeShare>> places;
  const Cluster& cluster = setting_.cluster;
  const std::int64_t all = device_count(mesh);
  const std::int64_t size = cluster.node_types.front().devices;
  // In a single node all places are alike.
  if (cluster.nodes.size() > 1 || cluster.nodes.front().count == 1 || all == 1) return {{}};
  struct Split {
    std::int64_t tp, cp, dp, pp;
    std::int64_t devices() const { return tp * cp * dp * pp; }
  };
  std::vector<Split> splits;
  for (const std::int64_t tp : divisors(mesh.tp, size)) {
    for (const std::int64_t cp : divisors(mesh.cp, size / tp)) {
      for (const std::int64_t dp : divisors(mesh.dp, size / (tp * cp))) {
        for (const std::int64_t pp : divisors(mesh.pp, size / (tp * cp * dp))) {
          const Split split{tp, cp, dp, pp};
          if (all / split.devices() <= cluster.nodes.front().count) splits.push_back(split);
        }
      }
    }
  }
  const auto is_part = [](const Split& a, const Split& b) {
    return b.tp % a.tp == 0 && b.cp % a.cp == 0 && b.dp % a.dp == 0 && b.pp % a.pp == 0 &&
           b.devices() > a.devices();
  };
  for (const Split& split : splits) {
    if (std::ranges::any_of(splits, [&](const Split& other) { return is_part(split, other); })) {
      continue;
    }
    std::vector<NodeShare> place;
    if (split.tp > 1) place.push_back({"tp", split.tp});
    if (split.cp > 1) place.push_back({"cp", split.cp});
    if (split.dp > 1) place.push_back({"dp", split.dp});
    if (split.pp > 1) place.push_back({"pp", split.pp});
    if (place.empty()) place.push_back({"tp", 1});
    places.push_back(std::move(place));
  }
  // Where the degrees do not fill nodes, devices in their order.
  if (places.empty()) places.emplace_back();
  return places;
}

std::vector<PlanChoices> SearchSpace::divisions(const PlanChoices& partial) const {
  std::vector<PlanChoices> all;
  const auto places =
      allowed("place", each(partial, places_of(partial),
                            [](PlanChoices& c, const auto& value) { c.place = value; }));
  for (const PlanChoices& placed : places) {
    std::vector<bool> split = {false};
    const bool line = placed.tensor == TensorForm::OneD;
    const std::int64_t parts = placed.tp * placed.cp;
    if (line && placed.tp > 1 && batch_.sequence % parts == 0) split.push_back(true);
    for (PlanChoices& one : allowed(
             "sequence_parallel",
             each(placed, split, [](PlanChoices&c, bool value) { c.sequence_parallel = value; }))) {
      for (PlanChoices& shared : expert_degrees(one)) all.push_back(std::move(shared));
    }
  }
  return all;
}

// Groups of devices that share experts out lie in a node, or have a node's replicas in them.
std::vector<PlanChoices> SearchSpace::expert_degrees(const PlanChoices& divided) const {
  const auto set = [](PlanChoices& c, std::int64_t value) { c.ep = value; };
  const bool line = divided.tensor == TensorForm::OneD;
  const std::int64_t most = line ? divided.dp * divided.tp / expert_tensor_degree(divided) : 1;
  auto degrees = each(divided, divisors(experts_, std::max<std::int64_t>(most, 1)), set);
  if (is_pinned("ep")) return allowed("ep", degrees);
  const auto inside = std::ranges::find(divided.place, "dp", &NodeShare::axis);
  std::erase_if(degrees, [&](const PlanChoices& one) {
    const std::int64_t sharing = replicas_sharing_experts(one);
    const std::int64_t share = inside == divided.place.end() ? 1 : inside->count;
    const bool fits = share % sharing == 0 || sharing % share == 0;
    return one.ep > 1 && (!fits || nesting_problem(one, setting_.model));
  });
  return allowed("ep", degrees);
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
  if (partial.pp > 1 || is_pinned("schedule")) add(Schedule::GPipe, 1);
  for (std::int64_t chunks = 2; partial.pp > 1 && partial.pp * chunks <= layers_; ++chunks) {
    add(Schedule::Interleaved, chunks);
  }
  return all;
}

// As equal as can be, and so that stages end together.
std::vector<PlanChoices> SearchSpace::layerings(const PlanChoices& partial, Bounds& bounds) const {
  std::vector<std::vector<std::int64_t>> layers = {{}};
  if (partial.pp > 1 && partial.virtual_stages == 1) {
    const auto balanced = bounds.balanced_layers(partial);
    if (balanced != equal_layers(layers_, partial.pp)) layers.push_back(balanced);
  }
  if (const auto own = target_ ? target_->layers(partial) : std::nullopt) layers = {*own};
  return allowed(
      "layers", each(partial, layers, [](PlanChoices& c, const auto& value) { c.layers = value; }));
}

std::vector<PlanChoices> SearchSpace::recomputes(const PlanChoices& partial) const {
  return allowed("recompute", each(partial, recomputes_,
                                   [](PlanChoices& c, const auto& kind) { c.recompute = kind; }));
}

// Activations only where a stage has one chunk: with more, copies of many chunks queue up, and
// bounds say little about how long.
std::vector<PlanChoices> SearchSpace::offloads(const PlanChoices& partial) const {
  struct Offload {
    bool activations, optimizer;
  };
  std::vector<Offload> offloads = {{false, false}};
  if (has_host_) offloads.push_back({false, true});
  if (has_host_ && partial.virtual_stages == 1) {
    offloads.push_back({true, false});
    offloads.push_back({true, true});
  }
  return allowed("offload", each(partial, offloads, [](PlanChoices& c, const Offload& value) {
                   c.offload_activations = value.activations;
                   c.offload_optimizer = value.optimizer;
                 }));
}

std::vector<PlanChoices> SearchSpace::zeros(const PlanChoices& partial) const {
  const std::vector<int> stages =
      repeated_weights(partial) > 1 ? std::vector{0, 1, 2, 3} : std::vector{0};
  return allowed("zero", each(partial, stages, [](PlanChoices& c, int value) { c.zero = value; }));
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

Reasons SearchSpace::problems(const Reasons& refusal) const {
  PlanChoices pinned = base_;
  for (const SearchedKey& key : kSearchedKeys) {
    if (!is_pinned(key.name)) key.copy(pinned, PlanChoices{});
  }
  Reasons reasons = check_choices(pinned, batch_, setting_.model, setting_.cluster);
  if (reasons.empty()) reasons = refusal;
  if (reasons.empty()) reasons.push_back("no plan has all that is pinned and nothing forbidden");
  return reasons;
}

PlanChoices SearchSpace::leanest(PlanChoices partial) const {
  int most = 0;
  for (const PlanChoices& state : zeros(partial)) most = std::max(most, state.zero);
  partial.zero = most;
  return partial;
}

std::vector<std::pair<std::string, std::vector<std::string>>> SearchSpace::text() const {
  std::vector<std::pair<std::string, std::vector<std::string>>> keys;
  const auto add = [&](std::string_view key, std::vector<std::string> values) {
    if (is_pinned(key)) values = {pinned_.at(std::string(key))};
    keys.emplace_back(std::string(key), std::move(values));
  };
  add("dp", {fmt::format("divisors of {} up to {} devices", batch_.global_batch, devices_)});
  std::vector<std::string> tp = {fmt::format("1 to {}", std::min(widest_, devices_))};
  for (std::int64_t t = 2 * widest_; t <= std::min(widest_sharing_, devices_); t += widest_) {
    tp.push_back(std::to_string(t));
  }
  add("tp", std::move(tp));
  add("tensor", {"1d"});
  if (experts_ > 1) add("ep", {fmt::format("divisors of {} that groups allow", experts_)});
  add("pp", {fmt::format("1 to {}", std::min(layers_, devices_))});
  add("cp", {fmt::format("divisors of the sequence that leave {} tokens", kFewestTokens)});
  add("context", {"ring", "ulysses", "a ring of nodes, within nodes by heads or in a ring"});
  add("place", {"every split of a node among the axes"});
  add("microbatch", {"divisors of a replica's samples"});
  add("sequence_parallel", {"false", "true"});
  add("schedule", {"1f1b", "gpipe", "interleaved"});
  add("virtual_stages", {fmt::format("1 to {} / pp", layers_)});
  add("layers", {"as equal as can be", "so that stages end together"});
  std::vector<std::string> kept;
  for (const RecomputeChoice& recompute : recomputes_) kept.push_back(to_text(recompute));
  add("recompute", std::move(kept));
  add("zero", {"0", "1", "2", "3"});
  std::vector<std::string> buckets;
  for (const Bytes bucket : kBuckets) buckets.push_back(to_text(bucket));
  add("bucket", std::move(buckets));
  std::vector<std::string> offloads = {"none"};
  if (has_host_) offloads.push_back("optimizer");
  if (has_host_) {
    offloads.insert(offloads.end(),
                    {"activations and activations+optimizer with one chunk a stage"});
  }
  add("offload", std::move(offloads));
  return keys;
}

double SearchSpace::size() const {
  double size = 0;
  for (const PlanChoices& mesh : meshes()) {
    const auto sizes = microbatches(mesh);
    if (sizes.empty()) continue;
    // What follows depends on the mesh alone.
    const PlanChoices& one = sizes.front();
    const auto count = [](const auto& list) { return static_cast<double>(list.size()); };
    size += count(sizes) * count(divisions(one)) * count(schedules(one)) * count(recomputes(one)) *
            count(zeros(one)) * count(buckets(one));
  }
  return size;
}

}  // namespace meshwright
