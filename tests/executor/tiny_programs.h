#pragma once

#include <string>
#include <utility>
#include <vector>

#include "simulator/program/program.h"
#include "tests/contiguous_place.h"
#include "tests/flat_transfer.h"

// Programs made by hand: an embedding, a layer norm, logits by the same table, the loss. What they
// show does not depend on how plans are lowered.
namespace meshwright {

inline constexpr std::int64_t kVocabulary = 11, kFeatures = 8, kSequence = 5;
inline constexpr std::int64_t kWeights = kVocabulary * kFeatures + 2 * kFeatures;

enum class Sharing { Replicated, Sharded };  // of the optimizer's work: data parallel, ZeRO-1

class TinyProgram {
 public:
  TinyProgram(std::size_t device, std::size_t devices, std::int64_t global_batch,
              std::int64_t microbatches, Precision precision, Sharing sharing)
      : device_(device), devices_(devices), sharing_(sharing) {
    program_.device = DeviceId(device);
    program_.precision = precision;
    program_.lanes = {"compute"};
    const auto share = global_batch / static_cast<std::int64_t>(devices);
    program_.batch = {global_batch, static_cast<std::int64_t>(device) * share, share / microbatches,
                      kSequence};
    add_weights();
    for (std::int64_t m = 0; m < microbatches; ++m) add_microbatch(m);
    add_step();
  }
  Program take() { return std::move(program_); }

 private:
  using Used = std::pair<BufferId, Operand>;

  BufferId buffer(std::string name, std::int64_t count, BufferElement element = BufferElement::Real,
                  Component component = Component::Activations, bool persistent = false) {
    program_.buffers.push_back({std::move(name), count, element, component, persistent});
    return BufferId(program_.buffers.size() - 1);
  }

  // A new buffer that holds the operand and nothing else.
  Used fresh(const std::string& name, std::vector<std::int64_t> sizes,
             BufferElement element = BufferElement::Real) {
    Operand operand = dense_operand(std::move(sizes), element);
    operand.written = true;
    return {buffer(name, element_count(operand), element), operand};
  }
  static Used read(Used used) {
    used.second.written = false;
    return used;
  }
  static Used part(BufferId id, std::vector<std::int64_t> sizes, std::int64_t offset,
                   bool written = false) {
    Operand operand = dense_operand(std::move(sizes), BufferElement::Real, offset);
    operand.written = written;
    return {id, operand};
  }
  // The table [vocabulary, f] as a weight [f, vocabulary].
  static Used head(BufferId id, bool written = false) {
    Used used = part(id, {kFeatures, kVocabulary}, 0, written);
    used.second.strides = {1, kFeatures};
    return used;
  }

  void add(Kernel kernel, const std::vector<Used>& operands) {
    Task task{.kind = TaskKind::Kernel,
              .what = static_cast<std::uint32_t>(program_.kernels.size()),
              .microbatch = microbatch_,
              .first_operand = static_cast<std::uint32_t>(program_.operands.size()),
              .operand_count = static_cast<std::uint32_t>(operands.size())};
    for (const auto& [id, operand] : operands) {
      program_.operands.push_back(id);
      kernel.operands.push_back(operand);
    }
    program_.kernels.push_back(std::move(kernel));
    program_.tasks.push_back(task);
  }
  void add(TransferKind kind, BufferId id, Reduction reduction = Reduction::Sum) {
    Transfer transfer{.kind = kind, .reduction = reduction};
    for (std::size_t d = 0; d < devices_; ++d) transfer.group.emplace_back(d);
    const Buffer& buffer = program_.buffers[id.index()];
    transfer = flat(std::move(transfer), buffer.count, device_, 0, buffer.element);
    program_.tasks.push_back({.kind = TaskKind::Transfer,
                              .what = static_cast<std::uint32_t>(program_.transfers.size()),
                              .first_operand = static_cast<std::uint32_t>(program_.operands.size()),
                              .operand_count = 2});
    program_.operands.insert(program_.operands.end(), 2, id);
    program_.transfers.push_back(std::move(transfer));
  }

  void add_weights() {
    weights_ = buffer("weights", kWeights, BufferElement::Real, Component::Weights, true);
    gradients_ = buffer("gradients", kWeights, BufferElement::Real, Component::Gradients);
    loss_ = buffer("loss", 1, BufferElement::Double);
    program_.loss = loss_;
    const std::int64_t table = kVocabulary * kFeatures;
    const auto weight = [&](std::string name, std::vector<std::int64_t> sizes, std::int64_t at) {
      std::vector<GlobalExtent> place;
      for (const std::int64_t size : sizes) place.push_back({0, size});
      program_.weights.push_back(
          {std::move(name), std::move(place), std::move(sizes), weights_, gradients_, {}, at});
    };
    weight("table.weight", {kVocabulary, kFeatures}, 0);
    weight("norm.weight", {kFeatures}, table);
    weight("norm.bias", {kFeatures}, table + kFeatures);
  }

  void add_microbatch(std::int64_t m) {
    using enum KernelKind;
    using enum Phase;
    microbatch_ = static_cast<std::int32_t>(m);
    const std::int64_t b = program_.batch.micro_batch, s = kSequence, f = kFeatures,
                       v = kVocabulary, gain_at = v * f, bias_at = gain_at + f;
    const std::string end = "." + std::to_string(m);
    const Used tokens = fresh("tokens" + end, {b, s}, BufferElement::Index),
               labels = fresh("labels" + end, {b, s}, BufferElement::Index),
               x = fresh("x" + end, {b, s, f}), z = fresh("z" + end, {b, s, f}),
               y = fresh("y" + end, {b, s, f}), mean = fresh("mean" + end, {b, s}),
               scale = fresh("scale" + end, {b, s}), logits = fresh("logits" + end, {b, s, v}),
               largest = fresh("largest" + end, {b, s}), sums = fresh("sums" + end, {b, s, 2}),
               dlogits = fresh("dlogits" + end, {b, s, v}), dy = fresh("dy" + end, {b, s, f}),
               dz = fresh("dz" + end, {b, s, f}), dx = fresh("dx" + end, {b, s, f});
    const Used gain = part(weights_, {f}, gain_at), bias = part(weights_, {f}, bias_at),
               table = part(weights_, {v, f}, 0), loss{loss_, doubles(1, true)};
    const DropoutAttributes dropout{0.1};
    const auto place =
        contiguous_place({b, s, f}, {{0, program_.batch.global_batch}, {0, s}, {0, f}});
    const std::vector<DimPlace> rows = {place[0], place[1]};
    add({.kind = Load, .name = "tokens", .place = rows}, {tokens});
    add({.kind = Load, .name = "labels", .place = rows}, {labels});
    add({.kind = Embedding}, {read(tokens), table, x});
    add({.kind = Dropout, .attributes = dropout, .name = "drop", .place = place}, {read(x), z});
    add({.kind = LayerNorm, .attributes = NormAttributes{}}, {read(z), gain, bias, y, mean, scale});
    add({.kind = Matmul}, {read(y), head(weights_), logits});
    add({.kind = LossLargest}, {read(logits), largest});
    add({.kind = LossSums}, {read(logits), read(labels), read(largest), sums});
    add({.kind = Loss}, {read(labels), read(largest), read(sums), loss});
    add({.kind = Loss, .phase = InputGradient},
        {read(logits), read(labels), read(largest), read(sums), dlogits});
    add({.kind = Matmul, .phase = InputGradient}, {head(weights_), read(dlogits), dy});
    add({.kind = Matmul, .phase = WeightGradient, .accumulate = m > 0},
        {read(y), read(dlogits), head(gradients_, true)});
    add({.kind = LayerNorm, .phase = InputGradient, .attributes = NormAttributes{}},
        {read(z), gain, read(mean), read(scale), read(dy), dz});
    add({.kind = LayerNorm,
         .phase = WeightGradient,
         .attributes = NormAttributes{},
         .accumulate = m > 0},
        {read(z), read(mean), read(scale), read(dy), part(gradients_, {f}, gain_at, true),
         part(gradients_, {f}, bias_at, true)});
    add({.kind = Dropout,
         .phase = InputGradient,
         .attributes = dropout,
         .name = "drop",
         .place = place},
        {read(dz), dx});
    add({.kind = Embedding, .phase = WeightGradient, .accumulate = true},
        {read(tokens), read(dx), part(gradients_, {v, f}, 0, true)});
    microbatch_.reset();
  }

  static Operand doubles(std::int64_t count, bool written) {
    Operand operand = dense_operand({count}, BufferElement::Double);
    operand.written = written;
    return operand;
  }

  void add_step() {
    using enum KernelKind;
    const bool sharded = sharing_ == Sharing::Sharded && devices_ > 1;
    const std::int64_t own = sharded ? kWeights / static_cast<std::int64_t>(devices_) : kWeights;
    const std::int64_t at = sharded ? own * static_cast<std::int64_t>(device_) : 0;
    const BufferId m = buffer("m", own, BufferElement::Real, Component::Optimizer, true),
                   v = buffer("v", own, BufferElement::Real, Component::Optimizer, true),
                   largest = buffer("largest", 1, BufferElement::Double),
                   sums = buffer("sums", 2, BufferElement::Double),
                   factor = buffer("factor", 2, BufferElement::Double);
    program_.clip = factor;
    const Used mine = part(gradients_, {own}, at);
    if (devices_ > 1) {
      add(TransferKind::AllReduce, loss_);
      add(sharded ? TransferKind::ReduceScatter : TransferKind::AllReduce, gradients_);
    }
    const std::vector<OperandRange> all = {{.count = own, .decay = true}};
    add({.kind = NormLargest, .phase = Phase::Step, .ranges = all},
        {mine, {largest, doubles(1, true)}});
    if (sharded) add(TransferKind::AllReduce, largest, Reduction::Max);
    add({.kind = NormSums, .phase = Phase::Step, .ranges = all},
        {mine, {largest, doubles(1, false)}, {sums, doubles(2, true)}});
    if (sharded) add(TransferKind::AllReduce, sums);
    add({.kind = ClipFactor, .phase = Phase::Step},
        {{sums, doubles(2, false)}, {factor, doubles(2, true)}});
    add({.kind = AdamW, .phase = Phase::Step, .ranges = all}, {mine,
                                                               {factor, doubles(2, false)},
                                                               part(weights_, {own}, at, true),
                                                               part(m, {own}, 0, true),
                                                               part(v, {own}, 0, true)});
    if (sharded) add(TransferKind::AllGather, weights_);
  }

  std::size_t device_, devices_;
  Sharing sharing_;
  Program program_;
  std::optional<std::int32_t> microbatch_;
  BufferId weights_, gradients_, loss_;
};

inline std::vector<Program> tiny_programs(std::size_t devices, std::int64_t global_batch,
                                          std::int64_t microbatches, Precision precision,
                                          Sharing sharing = Sharing::Replicated) {
  std::vector<Program> programs;
  for (std::size_t d = 0; d < devices; ++d) {
    programs.push_back(
        TinyProgram(d, devices, global_batch, microbatches, precision, sharing).take());
  }
  return programs;
}

}  // namespace meshwright
