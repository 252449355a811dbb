#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "simulator/lowering/fragment.h"
#include "simulator/lowering/program_writer.h"

namespace meshwright {

// Writes the tasks that make weights and gradients whole where dp shards them. An entry of the
// order has buffers of its own for them, so they are there from a gather to the last use, and from
// the first gradient of a bucket to its sum over the replicas. Gradients are summed over the
// replicas for every micro-batch and then over micro-batches, so with several of these the result
// is that of ZeRO-0 and 1 but for rounding, and with one to the bit.
class ShardedBuckets {
 public:
  ShardedBuckets(ProgramWriter& writer, const WeightBuckets& weights, const Plan& plan,
                 const Placement& placement)
      : writer_(writer),
        weights_(weights),
        plan_(plan),
        group_(placement.group("dp")),
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
    std::optional<std::uint32_t> gather, scatter, set, add;
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
  void add_kernel(std::optional<std::uint32_t>& what, const Kernel& kernel,
                  std::vector<BufferId> operands, OrderKey& key, std::int32_t microbatch);
  void add_transfer(std::optional<std::uint32_t>& what, const Transfer& transfer,
                    std::vector<BufferId> buffers, OrderKey& key, TaskMarks marks = {});

  ProgramWriter& writer_;
  const WeightBuckets& weights_;
  const Plan& plan_;
  const std::vector<DeviceId> group_;
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
