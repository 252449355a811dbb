#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "simulator/lowering/fragment.h"
#include "simulator/lowering/program_writer.h"
#include "simulator/lowering/state_buffers.h"

namespace meshwright {

// A bucket's weights or gradients whole, where they are shared out: one buffer for every entry.
struct WholeBucket {
  std::size_t bucket = 0;
  Component component = Component::Weights;
  friend auto operator<=>(const WholeBucket&, const WholeBucket&) = default;
};

// Writes the tasks that make weights and gradients whole where they are shared out. An entry of the
// order has buffers of its own for them, so they are there from a gather to the last use, and from
// the first gradient of a bucket to its sum over the replicas. Gradients are summed over the
// replicas for every micro-batch and then over micro-batches, so with several of these the result
// is that of ZeRO-0 and 1 but for rounding, and with one to the bit.
class ShardedBuckets {
 public:
  ShardedBuckets(ProgramWriter& writer, const PlannedGraph& planned, const WeightBuckets& weights,
                 const StateBuffers& buffers, const Plan& plan, const Placement& placement)
      : writer_(writer),
        planned_(planned),
        weights_(weights),
        buffers_(buffers),
        plan_(plan),
        placement_(placement),
        shards_(std::ranges::any_of(
            weights.buckets,
            [](const Bucket& bucket) { return bucket.shards_weights || bucket.shards_gradients; })),
        written_(weights.buckets.size()) {}

  // An entry with these tasks comes next. Keys are taken from `key`, which counts on.
  void start_entry(const Fragment& fragment, const std::vector<const FragmentTask*>& tasks,
                   std::int32_t microbatch);
  void gather_before(std::size_t task, OrderKey& key);
  void scatter_after(const FragmentTask& task, OrderKey& key);
  void end_entry(OrderKey& key);
  // After the last entry.
  void finish(OrderKey& key) { keep_scattered(key); }

  BufferId buffer_of(const WholeBucket& whole);

 private:
  struct Gather {
    std::size_t bucket = 0;
    std::size_t before = 0;  // task of the entry
  };
  // Kernels and transfers of a bucket, which are the same for every micro-batch.
  struct Written {
    std::optional<std::uint32_t> gather, scatter, sum, set, add;
    bool has_gradients = false;  // of an earlier micro-batch
  };
  struct Scattered {
    std::size_t bucket = 0;
    BufferId whole;
    std::int32_t microbatch = 0;
  };

  std::vector<Gather> gathers_of(const Fragment& fragment,
                                 const std::vector<const FragmentTask*>& tasks) const;
  void gather(std::size_t bucket, OrderKey& key);
  void scatter(std::size_t bucket, OrderKey& key);
  void keep_scattered(OrderKey& key);
  void add_task(std::optional<std::uint32_t>& what,
                const std::variant<Kernel, Transfer, HostCopy>& work,
                const std::vector<BufferId>& operands, OrderKey& key, std::int32_t microbatch,
                TaskMarks marks = {});

  ProgramWriter& writer_;
  const PlannedGraph& planned_;
  const WeightBuckets& weights_;
  const StateBuffers& buffers_;
  const Plan& plan_;
  const Placement& placement_;
  const bool shards_;             // whether there is anything to do
  std::vector<Written> written_;  // by bucket

  // Of the entry.
  std::int32_t microbatch_ = 0;
  std::map<WholeBucket, BufferId> whole_;
  std::vector<Gather> gathers_;                 // in the order of the tasks they stand before
  std::size_t gathered_ = 0;                    // of these
  std::map<std::size_t, std::size_t> missing_;  // by bucket: gradients still to come
  std::vector<std::size_t> complete_;           // buckets that wait for the end of the entry

  // What is summed over the replicas is added to the own part one bucket later, or computing would
  // wait for the transfer.
  std::optional<Scattered> scattered_;
  bool scattered_before_ = false;  // in an earlier entry
};

}  // namespace meshwright
