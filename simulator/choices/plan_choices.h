#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "costmodel/base/precision.h"
#include "costmodel/base/units.h"
#include "costmodel/model/kernel_set.h"
#include "simulator/choices/shared_list.h"

namespace meshwright {

// Interleaved is one forward, one backward with several chunks a stage.
enum class Schedule { GPipe, OneForwardOneBackward, Interleaved };

// What is computed again in the backward: nothing; attention without its projections; of every
// layer all but attention and every other matrix product; layers in segments of equal size ("full"
// is one layer each); the first layers of every chunk; of every layer, or of the first ones of
// every chunk, the tensors that are named, and of the other layers others.
enum class Recompute { None, Selective, Products, Uniform, First, Drop };
struct RecomputeChoice {
  Recompute kind = Recompute::None;
  std::int64_t layers = 1;  // Uniform: of a segment; First, Drop: of a chunk; Drop: 0 for all
  // Drop: what a layer does not keep, by names within the layer such as "attention.norm",
  // ascending. Nothing else is computed again, also where the software reruns layers as they are.
  SharedList<std::string> dropped = {};
  SharedList<std::string> others = {};  // the same of a chunk's layers behind the first ones
  friend auto operator<=>(const RecomputeChoice&, const RecomputeChoice&) = default;
};

// How devices that have a part of the sequence each (cp) attend to all of it: keys and values go
// around a ring of them; every device gets all tokens of some of the heads; a ring of rings; or all
// keys and values are brought to every device from neighbour to neighbour.
enum class Context { Ring, Ulysses, DoubleRing, RingSelfAttention };

// How many neighbours of an axis stand in one node, and those next to each other in there.
struct NodeShare {
  std::string axis;  // "dp", "tp", "pp", "cp"
  std::int64_t count = 1;
  friend auto operator<=>(const NodeShare&, const NodeShare&) = default;
};

// How the devices that share a replica's layers are laid out: in a line; a square; layers of
// squares; a cube.
enum class TensorForm { OneD, TwoD, TwoAndHalfD, ThreeD };
std::string_view to_text(TensorForm form);

// The short form of a plan, as a person types it: "dp=2,tp=2,pp=2,zero=1,microbatch=1". What is
// left out has its plain default.
struct PlanChoices {
  std::int64_t dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
  std::optional<std::int64_t> etp = {};  // devices that share an expert's products out; none: tp
  std::optional<double> capacity = {};   // as Plan::expert_capacity
  double imbalance = 1;                  // as Plan::expert_imbalance
  TensorForm tensor = TensorForm::OneD;
  std::int64_t depth = 1;  // layers of a 2.5d
  Context context = Context::Ring;
  // Devices of cp that share heads out, the others being a ring; none: 1, or all of them.
  std::optional<std::int64_t> ulysses = {};
  std::optional<std::int64_t> inner_ring = {};  // devices of one of the rings of a double ring
  bool summa = false;  // products of squares part by part, each sent while another is added
  int zero = 0;
  std::optional<std::int64_t> shard = {};  // replicas that zero shares state out among; none: all
  std::int64_t microbatch = 1;
  std::int64_t virtual_stages = 1;  // chunks of every stage
  SharedList<std::int64_t> layers;  // of each chunk; empty: as equal as can be
  // How a node's devices are shared out among the axes, innermost first; what an axis has beyond
  // that goes over nodes. Empty: devices in their order, tp innermost, then cp, dp, pp.
  SharedList<NodeShare> place;
  bool sequence_parallel = false;
  Schedule schedule = Schedule::OneForwardOneBackward;
  RecomputeChoice recompute = {};
  bool rerun_all = false;  // also what no gradient reads
  bool offload_activations = false, offload_optimizer = false;
  std::int64_t offloaded_layers = 0;  // of a chunk, the first ones' activations; 0 for all
  Bytes bucket = 25_MiB;
  // A bucket is at least as many times this as there are replicas: a software that knows that
  // reductions over many devices are long makes them large. 0 where a person gives the bucket.
  Bytes bucket_per_replica = {};
  bool overlap = true;
  std::int64_t prefetch = 1;
  bool reshard = true;
  KernelSet kernels = KernelSet::Executor;
  std::optional<Precision> gradient_precision = {};  // none: fp32
  friend bool operator==(const PlanChoices&, const PlanChoices&) = default;
};

// How many devices the plan needs.
std::int64_t device_count(const PlanChoices& choices);
// Of those of cp: how many share heads out, how many are in a ring, and how many such rings.
struct ContextDegrees {
  std::int64_t rings = 1, ring = 1, heads = 1;
  friend auto operator<=>(const ContextDegrees&, const ContextDegrees&) = default;
};
ContextDegrees context_degrees(const PlanChoices& choices);
// Groups of devices that have all weights among them and samples or tokens of their own: replicas,
// and of each the parts of the sequence and the layers of a 2.5d.
std::int64_t repeated_weights(const PlanChoices& choices);
// Of these in one node, where a place is given.
std::int64_t devices_in_node(const PlanChoices& choices);
// Gradients that are reduced together.
Bytes bucket_of(const PlanChoices& choices);

// Throws InputError that names the key, what was found and what was expected.
PlanChoices parse_plan_choices(std::string_view text, const PlanChoices& otherwise = {});

// The short form: every key whose value is not that of `otherwise`, the degrees always, in the
// order of the documents. parse_plan_choices reads it back.
std::string to_text(const PlanChoices& choices, const PlanChoices& otherwise = {});
std::string to_text(const RecomputeChoice& recompute);
std::string offload_text(const PlanChoices& choices);
std::string to_text(const SharedList<NodeShare>& place);
std::string_view to_text(Schedule schedule);
std::string_view to_text(Context context);

// Whether a text is meant as a short form and not as a file's name.
bool looks_like_choices(std::string_view text);

}  // namespace meshwright
