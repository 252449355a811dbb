#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "simulator/lowering/program_writer.h"
#include "simulator/lowering/step_end.h"

namespace meshwright {

// The buffers of a device's weights, gradients and optimizer state in its program.
class StateBuffers {
 public:
  // Adds them, and the weights' shards, to the program.
  StateBuffers(Program& program, const PlannedGraph& planned, const WeightBuckets& weights,
               const Plan& plan);

  BufferId operator[](const BucketState& state) const;
  BufferId operator[](const UseGradient& use) const;

 private:
  std::vector<std::map<StateKind, BufferId>> buckets_;
  std::map<std::tuple<std::size_t, std::size_t, std::size_t>, BufferId> use_gradients_;
};

// Writes tasks on weights and state into a program, at keys from `key` on.
class StateTaskWriter {
 public:
  StateTaskWriter(ProgramWriter& writer, const Program& program, const StateBuffers& buffers)
      : writer_(writer), program_(program), buffers_(buffers) {}

  void write(const std::vector<StateTask>& tasks, OrderKey& key);
  void write(const StepEnd& end, OrderKey key);

 private:
  BufferId buffer_of(const StateOperand& operand) const;

  ProgramWriter& writer_;
  const Program& program_;
  const StateBuffers& buffers_;
  std::vector<BufferId> made_;
};

}  // namespace meshwright
