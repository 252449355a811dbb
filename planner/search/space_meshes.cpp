// Which devices do what: degrees, how tensors, the sequence and experts are shared out, and where
// in the cluster.
#include <algorithm>
#include <iterator>
#include <set>

#include "planner/search/each_choice.h"
#include "planner/search/space.h"
#include "simulator/choices/context_work.h"
#include "simulator/choices/stage_axes.h"
#include "simulator/choices/tensor_form.h"

namespace meshwright {
namespace {

// As many as there are heads to cut, or multiples of them that share heads, squares with as many
// columns, and cubes.
std::vector<std::int64_t> tensor_degrees(std::int64_t widest, std::int64_t sharing,
                                         std::int64_t most) {
  std::set<std::int64_t> degrees;
  for (std::int64_t t = 2 * widest; t <= std::min(sharing, most); t += widest) degrees.insert(t);
  for (std::int64_t side = 1; side <= std::min(widest, most); ++side) {
    degrees.insert(side);
    if (side <= most / side) degrees.insert(side * side);
    if (side <= most / side / side && side * side <= widest) degrees.insert(side * side * side);
  }
  return {degrees.begin(), degrees.end()};
}

}  // namespace

std::vector<PlanChoices> SearchSpace::meshes(const std::stop_token& stop) const {
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
      if (stop.stop_requested()) return meshes;
      for (const PlanChoices& mesh : allowed("pp", pp)) {
        if (device_count(mesh) <= devices_ && may_have_chunks(mesh)) add_contexts(meshes, mesh);
      }
    }
  }
  return meshes;
}

// Where nothing is pinned, with one chunk a stage.
bool SearchSpace::may_have_chunks(const PlanChoices& mesh) const {
  PlanChoices chunks = mesh;
  const auto given = static_cast<std::int64_t>(base_.layers.size());
  if (is_pinned("layers")) chunks.virtual_stages = std::max<std::int64_t>(1, given / mesh.pp);
  return has_chunks(chunks);
}

// Layers of squares have the steps of squares with that many times the replicas, bit by bit, where
// these have what is left of the micro-batch.
std::vector<PlanChoices> SearchSpace::tensors(const std::vector<PlanChoices>& degrees) const {
  std::vector<PlanChoices> all;
  std::vector<TensorForm> forms = {TensorForm::OneD};
  if (experts_ <= 1) forms.insert(forms.end(), {TensorForm::TwoD, TensorForm::ThreeD});
  for (PlanChoices line : degrees) {
    line.depth = 1;
    const auto laid_out =
        each(line, forms, [](PlanChoices& c, TensorForm value) { c.tensor = value; });
    for (const PlanChoices& one : allowed("tensor", laid_out)) {
      std::vector<bool> parts = {false};
      if (one.tensor != TensorForm::OneD && is_wide("summa")) parts.push_back(true);
      const auto products = each(one, parts, [](PlanChoices& c, bool value) { c.summa = value; });
      std::ranges::copy_if(allowed("summa", products), std::back_inserter(all),
                           [&](const PlanChoices& way) { return is_possible(way); });
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
  return heads <= widest_;
}

// Parts of the sequence with tokens enough to be worth a device, and the ways to attend to all of
// them: rings and heads as far as there are heads, both where nodes have room for some.
void SearchSpace::add_contexts(std::vector<PlanChoices>& meshes, const PlanChoices& mesh) const {
  std::vector<std::int64_t> degrees = {1};
  // With experts only where it is asked for: bounds say nothing of sums of experts that parts of a
  // sequence share out, and searches with it end with gaps of a third.
  const bool line =
      mesh.tensor == TensorForm::OneD && (experts_ <= 1 || is_wide("cp") || cuts_sequence());
  for (const std::int64_t cp : divisors(batch_.sequence, devices_ / device_count(mesh))) {
    if (line && cp > 1 && batch_.sequence / cp >= fewest_tokens()) degrees.push_back(cp);
  }
  const auto cut = each(mesh, degrees, [](PlanChoices& c, std::int64_t value) { c.cp = value; });
  for (const PlanChoices& one : allowed("cp", cut)) {
    if (device_count(one) > devices_) continue;
    for (PlanChoices& way : allowed("context", contexts_of(one))) {
      Reasons problems;
      PlanChoices whole = way;
      whole.sequence_parallel = false;
      check_context(problems, whole, batch_, setting_.model);
      // One that is pinned is asked about in any case, to hear why not.
      if (problems.empty() || is_pinned("cp")) meshes.push_back(std::move(way));
    }
  }
}

std::vector<PlanChoices> SearchSpace::contexts_of(const PlanChoices& mesh) const {
  std::vector<PlanChoices> ways = {mesh};
  if (is_pinned("context") || is_pinned("ulysses") || is_pinned("inner_ring")) return ways;
  ways.back().context = Context::Ring;
  ways.back().ulysses.reset();
  ways.back().inner_ring.reset();
  if (mesh.cp == 1) return ways;
  if (wide_) return all_contexts_of(ways.front());
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

// Some devices share heads out, the others are a ring, rings of rings or bring each other all keys.
std::vector<PlanChoices> SearchSpace::all_contexts_of(const PlanChoices& mesh) {
  std::vector<PlanChoices> ways;
  for (const std::int64_t heads : divisors(mesh.cp, mesh.cp)) {
    const auto add = [&](Context context) -> PlanChoices& {
      ways.push_back(mesh);
      ways.back().context = context;
      if (heads > 1 && heads < mesh.cp) ways.back().ulysses = heads;
      return ways.back();
    };
    const std::int64_t ring = mesh.cp / heads;
    if (ring == 1) {
      add(Context::Ulysses);
      continue;
    }
    add(Context::Ring);
    add(Context::RingSelfAttention);
    for (const std::int64_t inner : divisors(ring, ring - 1)) {
      if (inner > 1) add(Context::DoubleRing).inner_ring = inner;
    }
  }
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
    return one.microbatch % rows != 0 ||  // pinned
           batch_problem(batch_.global_batch, one.dp, one.microbatch).has_value();
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

std::vector<PlanChoices> SearchSpace::splits(const PlanChoices& partial) const {
  std::vector<PlanChoices> all;
  std::vector<bool> split = {false};
  const bool line = partial.tensor == TensorForm::OneD;
  const std::int64_t parts = partial.tp * partial.cp;
  if (line && partial.tp > 1 && batch_.sequence % parts == 0) split.push_back(true);
  for (PlanChoices& one : allowed(
           "sequence_parallel",
           each(partial, split, [](PlanChoices&c, bool value) { c.sequence_parallel = value; }))) {
    for (PlanChoices& products : allowed("etp", expert_products(one))) {
      all.push_back(std::move(products));
    }
  }
  return all;
}

std::vector<PlanChoices> SearchSpace::places(const PlanChoices& partial) const {
  auto all = allowed("place", each(partial, places_of(partial),
                                   [](PlanChoices& c, const auto& value) { c.place = value; }));
  if (!is_pinned("place")) return all;
  std::erase_if(all, [&](const PlanChoices& placed) {
    Reasons problems;
    check_place(problems, placed, setting_.cluster);
    return !problems.empty();
  });
  return all;
}

std::vector<SharedList<NodeShare>> SearchSpace::node_shares(const PlanChoices& partial) const {
  std::vector<SharedList<NodeShare>> shares;
  for (const PlanChoices& placed : places(partial)) shares.push_back(placed.place);
  return shares;
}

// Devices of tp share each expert's products out; or none of them does, or as many as divide them:
// then the others have tokens and experts of their own.
std::vector<PlanChoices> SearchSpace::expert_products(const PlanChoices& divided) const {
  std::vector<PlanChoices> all = {divided};
  if (experts_ == 1 || divided.tp == 1 || !divided.sequence_parallel) return all;
  for (const std::int64_t etp : divisors(divided.tp, divided.tp - 1)) {
    if (!wide_ && (etp > 1 || experts_ % divided.tp != 0)) continue;
    all.push_back(divided);
    all.back().etp = etp;
  }
  return all;
}

std::vector<PlanChoices> SearchSpace::sharings(const PlanChoices& divided) const {
  const auto set = [](PlanChoices& c, std::int64_t value) { c.ep = value; };
  const bool line = divided.tensor == TensorForm::OneD;
  const std::int64_t parts = divided.cp * divided.tp;
  const std::int64_t most = line ? divided.dp * parts / expert_tensor_degree(divided) : 1;
  auto degrees = each(divided, divisors(experts_, std::max<std::int64_t>(most, 1)), set);
  if (is_pinned("ep")) {
    degrees = allowed("ep", degrees);
    std::erase_if(degrees, [&](const PlanChoices& one) {
      return experts_ % one.ep != 0 || nesting_problem(one, setting_.model);
    });
    return degrees;
  }
  std::erase_if(degrees, [&](const PlanChoices& one) {
    if (one.etp == 1 && one.ep % one.tp != 0 && !is_wide("etp")) return true;
    return (one.ep > 1 || one.etp) && nesting_problem(one, setting_.model).has_value();
  });
  return allowed("ep", degrees);
}

// Where a place is given.
std::int64_t SearchSpace::replicas_in_node(const PlanChoices& placed) {
  const auto inside = std::ranges::find(placed.place, "dp", &NodeShare::axis);
  return inside == placed.place.end() ? 1 : inside->count;
}

}  // namespace meshwright
