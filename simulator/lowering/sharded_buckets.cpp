#include "simulator/lowering/sharded_buckets.h"

#include <fmt/format.h>

#include <cassert>
#include <set>

#include "simulator/lowering/view.h"

namespace meshwright {
namespace {

Kernel sum_kernel(std::string name, std::vector<Operand> operands) {
  Kernel kernel{.kind = KernelKind::Sum,
                .phase = Phase::InputGradient,
                .operands = std::move(operands),
                .attributes = {},
                .name = std::move(name)};
  kernel.has_addend = kernel.operands.size() == 3;
  return kernel;
}

OrderKey take(OrderKey& key) {
  const OrderKey taken = key;
  ++key.index;
  return taken;
}

}  // namespace

void ShardedBuckets::start_entry(const Fragment& fragment,
                                 const std::vector<const FragmentTask*>& tasks,
                                 std::int32_t microbatch) {
  if (!shards_) return;
  microbatch_ = microbatch;
  std::erase_if(whole_, [&](const auto& entry) {
    return plan_.reshard || entry.first.component != Component::Weights;
  });
  missing_.clear();
  complete_.clear();
  scattered_before_ = scattered_.has_value();
  gathers_ = gathers_of(fragment, tasks);
  gathered_ = 0;
  for (const FragmentTask* task : tasks) {
    for (const WeightOfOp& use : task->gradients) {
      ++missing_[weights_.use(use.op, use.weight).bucket];
    }
  }
}

std::vector<ShardedBuckets::Gather> ShardedBuckets::gathers_of(
    const Fragment& fragment, const std::vector<const FragmentTask*>& tasks) const {
  std::vector<Gather> gathers;
  std::set<std::size_t> seen;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    for (const FragmentBufferId id : tasks[t]->operands) {
      const auto* weight = std::get_if<WeightOfOp>(&fragment.buffers[id.index()].holds);
      if (!weight || weight->gradient) continue;
      const std::size_t bucket = weights_.use(weight->op, weight->weight).bucket;
      if (!weights_.buckets[bucket].shards_weights) continue;
      if (whole_.contains({bucket, Component::Weights})) continue;
      if (seen.insert(bucket).second) gathers.push_back({bucket, t});
    }
  }
  const auto ahead = static_cast<std::size_t>(plan_.prefetch);
  for (std::size_t g = gathers.size(); g-- > 0;) {
    gathers[g].before = g < ahead ? 0 : gathers[g - ahead].before;
  }
  return gathers;
}

void ShardedBuckets::gather_before(std::size_t task, OrderKey& key) {
  for (; gathered_ < gathers_.size() && gathers_[gathered_].before == task; ++gathered_) {
    gather(gathers_[gathered_].bucket, key);
  }
}

void ShardedBuckets::scatter_after(const FragmentTask& task, OrderKey& key) {
  if (!shards_) return;
  for (const WeightOfOp& use : task.gradients) {
    const std::size_t bucket = weights_.use(use.op, use.weight).bucket;
    if (--missing_.at(bucket) > 0 || !weights_.buckets[bucket].shards_gradients) continue;
    if (plan_.overlap_gradients) {
      scatter(bucket, key);
    } else {
      complete_.push_back(bucket);
    }
  }
}

void ShardedBuckets::end_entry(OrderKey& key) {
  for (const std::size_t bucket : complete_) {
    scatter(bucket, key);
    keep_scattered(key);
  }
  if (scattered_before_) keep_scattered(key);
}

BufferId ShardedBuckets::buffer_of(const WholeBucket& whole) {
  const auto found = whole_.find(whole);
  if (found != whole_.end()) return found->second;
  const BufferId buffer = writer_.add_buffer(
      {.name = fmt::format("whole {} {}", to_text(whole.component), whole.bucket),
       .count = weights_.buckets[whole.bucket].count,
       .element =
           whole.component == Component::Gradients ? gradient_element(plan_) : BufferElement::Real,
       .component = whole.component});
  return whole_.emplace(whole, buffer).first->second;
}

// Whole weights take memory: a gather waits until computing has come to its place in the list.
void ShardedBuckets::gather(std::size_t number, OrderKey& key) {
  const Bucket& bucket = weights_.buckets[number];
  const BufferId whole = buffer_of({number, Component::Weights});
  const Transfer transfer{.kind = TransferKind::AllGather,
                          .purpose = Purpose::Weights,
                          .group = placement_.group(bucket.state_axes),
                          .source = range(0, bucket.own_count, BufferElement::Real),
                          .target = range(0, bucket.count, BufferElement::Real)};
  add_task(written_[number].gather, transfer,
           {buffers_[BucketState{number, StateKind::Weights}], whole}, key, microbatch_,
           {.waits_for_compute = true});
}

// As the end of a step sums what is whole all the time.
void ShardedBuckets::scatter(std::size_t number, OrderKey& key) {
  keep_scattered(key);
  const BufferId whole = buffer_of({number, Component::Gradients});
  Written& written = written_[number];
  std::optional<std::uint32_t>* what = &written.scatter;
  for (const StateTask& task : bucket_sync(planned_, weights_, number, plan_, placement_)) {
    add_task(*what, task.work, {whole, whole}, key, microbatch_);
    what = &written.sum;
  }
  scattered_ = Scattered{number, whole, microbatch_};
}

void ShardedBuckets::keep_scattered(OrderKey& key) {
  if (!scattered_) return;
  const Bucket& bucket = weights_.buckets[scattered_->bucket];
  Written& written = written_[scattered_->bucket];
  const BufferId own = buffers_[BucketState{scattered_->bucket, StateKind::Gradients}];
  const BufferElement element = gradient_element(plan_);
  std::vector<Operand> operands = {range(bucket.own_first, bucket.own_count, element)};
  std::vector<BufferId> buffers = {scattered_->whole};
  if (written.has_gradients) {
    operands.push_back(range(0, bucket.own_count, element));
    buffers.push_back(own);
  }
  operands.push_back(range(0, bucket.own_count, element, true));
  buffers.push_back(own);
  const Kernel kernel =
      sum_kernel(fmt::format("gradients {}", scattered_->bucket), std::move(operands));
  add_task(written.has_gradients ? written.add : written.set, kernel, buffers, key,
           scattered_->microbatch);
  written.has_gradients = true;
  scattered_.reset();
  scattered_before_ = false;
}

void ShardedBuckets::add_task(std::optional<std::uint32_t>& what,
                              const std::variant<Kernel, Transfer, HostCopy>& work,
                              const std::vector<BufferId>& operands, OrderKey& key,
                              std::int32_t microbatch, TaskMarks marks) {
  if (!what) what = writer_.add_work(work);
  writer_.add_task(kind_of(work), *what, operands, take(key), microbatch, marks);
}

}  // namespace meshwright
