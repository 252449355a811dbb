#pragma once

#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/bound/plan_bound.h"
#include "planner/search/kept_sets.h"
#include "planner/search/search.h"

namespace meshwright {

// Every plan that may be chosen, decision by decision: each step adds choices to those before it.
// Whether a plan can be lowered is for check_plan to say; this is what there is to ask about.
class SearchSpace {
 public:
  // InputError for pins and forbids that cannot be read.
  SearchSpace(const SearchQuestion& question, const Setting& setting);

  // dp, tp, pp, cp; not all when asked to stop.
  std::vector<PlanChoices> meshes(const std::stop_token& stop = {}) const;
  std::vector<PlanChoices> microbatches(const PlanChoices& mesh) const;  // microbatch
  std::vector<PlanChoices> splits(const PlanChoices& partial) const;     // SP, etp
  std::vector<PlanChoices> sharings(const PlanChoices& partial) const;   // ep
  std::vector<PlanChoices> places(const PlanChoices& partial) const;     // place
  // These places.
  std::vector<SharedList<NodeShare>> node_shares(const PlanChoices& partial) const;
  std::vector<PlanChoices> schedules(const PlanChoices& partial) const;  // with virtual stages
  std::vector<PlanChoices> layerings(const PlanChoices& partial, Bounds& bounds) const;
  // The same of all schedules before anything is known of blocks; with some others.
  std::vector<Staging> stagings(const PlanChoices& partial) const;
  // Whether these depend on how many stages there are alone, and places on degrees.
  bool stages_alike() const { return !target_; }
  std::vector<PlanChoices> recomputes(const PlanChoices& partial) const;  // what is dropped
  // The same with some more layers of every chunk that drop what the next of these does; none: all
  // layers would, or nothing is next.
  std::optional<PlanChoices> dropping_more(const PlanChoices& partial) const;
  // Where activations go to the host: of some of a chunk's layers only, or with some that drop what
  // the next does.
  std::vector<PlanChoices> partly_offloaded(const PlanChoices& partial) const;
  // All of these that any plan may have; those of tensors that are mixed stand next to each other.
  std::vector<RecomputeChoice> recompute_choices() const;
  std::vector<PlanChoices> offloads(const PlanChoices& partial) const;
  // Of these those that differ in what is done with activations, with the optimizer left where it
  // is if it may; and those that differ in the optimizer alone.
  std::vector<PlanChoices> activation_offloads(const PlanChoices& partial) const;
  std::vector<PlanChoices> optimizer_offloads(const PlanChoices& partial) const;
  std::vector<PlanChoices> zeros(const PlanChoices& partial) const;  // zero, shard
  std::vector<PlanChoices> buckets(const PlanChoices& partial) const;
  PlanChoices in_largest_buckets(const PlanChoices& choices) const;

  // The state that takes least memory, for bounds of all of them; and where ZeRO is decided.
  PlanChoices leanest(PlanChoices partial) const;
  PlanChoices leanest_optimizer(PlanChoices partial) const;

  // Each key with its values, in words where they depend on others.
  std::vector<std::pair<std::string, std::vector<std::string>>> text() const;
  // What could not be searched, in words.
  std::vector<std::string> notes() const;
  // Plans with sets of kept tensors that were not found might be better by at most this share.
  double open_share() const { return kept_.open_share; }
  // How many plans there are, before any is refused; none when asked to stop.
  std::optional<double> size(const std::stop_token& stop = {}) const;

 private:
  bool is_pinned(std::string_view key) const { return pinned_.contains(std::string(key)); }
  // Whether values count that are left out where nobody asks for them.
  bool is_wide(std::string_view key) const { return wide_ || is_pinned(key); }
  // Those that pins and forbids leave of choices that differ in a key. A pinned value counts even
  // where nobody would think of it.
  std::vector<PlanChoices> allowed(std::string_view key, std::vector<PlanChoices> values) const;
  // Every way to lay the tensor devices out.
  std::vector<PlanChoices> tensors(const std::vector<PlanChoices>& degrees) const;
  bool is_possible(const PlanChoices& tensor) const;
  // Every way to share an expert's products out.
  std::vector<PlanChoices> expert_products(const PlanChoices& divided) const;
  // Every way to share the state out.
  std::vector<PlanChoices> shards(const PlanChoices& state) const;
  // Whether there is something in every chunk: of others there are no bounds.
  bool has_chunks(const PlanChoices& partial) const;
  bool may_have_chunks(const PlanChoices& mesh) const;
  void add_contexts(std::vector<PlanChoices>& meshes, const PlanChoices& mesh) const;
  std::vector<PlanChoices> contexts_of(const PlanChoices& mesh) const;
  static std::vector<PlanChoices> all_contexts_of(const PlanChoices& mesh);
  std::vector<std::vector<NodeShare>> places_of(const PlanChoices& mesh) const;
  static std::int64_t replicas_in_node(const PlanChoices& placed);
  // What is kept by whole layers, that depends on how many a chunk has.
  void add_whole_layers(std::vector<RecomputeChoice>& recomputes, const PlanChoices& partial) const;
  // What drops least of what drops more; none: nothing does that is searched.
  const RecomputeChoice* next_kept(const RecomputeChoice& recompute) const;
  std::int64_t most_layers(const PlanChoices& partial) const;  // of a chunk
  // With any schedule, whatever layers keep.
  double kept_ways(const PlanChoices& partial) const;

  // So many of a chunk's layers at a time drop more, or go to the host.
  static std::int64_t layers_at_once(std::int64_t layers) {
    constexpr std::int64_t kMostSteps = 4;
    return (layers + kMostSteps - 1) / kMostSteps;
  }

  static constexpr Bytes kBuckets[] = {25_MiB, 100_MiB, 400_MiB, 1600_MiB};
  // Of a device's part of the sequence, where that is cut.
  static constexpr std::int64_t kFewestTokens = 2048;
  std::int64_t fewest_tokens() const { return wide_ || cuts_sequence() ? 1 : kFewestTokens; }
  // Whether what is pinned makes sense only of several parts of a sequence.
  bool cuts_sequence() const {
    return base_.context != Context::Ring || base_.ulysses || base_.inner_ring;
  }

  struct Forbidden {
    std::string key, value;  // as typed
    PlanChoices choices;     // with it
  };
  std::string plain_value(std::string_view key) const;
  void leave_allowed(std::string_view name, std::vector<std::string>& values) const;

  const BatchChoice batch_;
  const std::optional<TargetSpace> target_;
  const Setting& setting_;
  PlanChoices base_;                           // defaults with all pins
  const PlanChoices plain_;                    // what a key is where it is forbidden
  std::map<std::string, std::string> pinned_;  // as typed
  std::set<std::string> forbidden_keys_;
  std::vector<Forbidden> forbidden_;  // values
  const bool wide_;
  std::int64_t devices_ = 0, layers_ = 0, widest_ = 0, widest_sharing_ = 0, experts_ = 1;
  bool has_host_ = false;
  KeptSets kept_;
  std::vector<RecomputeChoice> recomputes_;  // these, none, all, and what a target has words for
};

}  // namespace meshwright
