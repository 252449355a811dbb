#include "simulator/program/program.h"

#include <fmt/format.h>

namespace meshwright {
namespace {

// "4[2,3]": where an operand starts in its buffer, and its sizes.
std::string operand_text(const std::optional<Operand>& operand) {
  if (!operand) return "";
  return fmt::format("{}[{}]", operand->offset, fmt::join(operand->sizes, ","));
}

std::string moved_text(const Transfer& transfer) {
  std::string text = transfer_text(transfer) + " " + operand_text(transfer.source) + " -> " +
                     operand_text(transfer.target);
  if (cuts_source(transfer.kind)) text += fmt::format(" from dim {}", transfer.source_cut.dim);
  if (cuts_target(transfer.kind)) text += fmt::format(" to dim {}", transfer.target_cut.dim);
  return text;
}

std::string what_text(const Program& program, const Task& task) {
  switch (task.kind) {
    case TaskKind::Kernel: {
      const Kernel& kernel = program.kernel(task);
      return fmt::format(" {} {} {}", to_text(kernel.kind), to_text(kernel.phase), kernel.name);
    }
    case TaskKind::Transfer:
      return " " + moved_text(program.transfer(task));
    case TaskKind::Copy:
      return fmt::format(" copy {} {}", to_text(program.copy(task).direction),
                         program.copy(task).count);
  }
  return "";
}

}  // namespace

std::string_view to_text(Component component) {
  switch (component) {
    case Component::Weights:
      return "weights";
    case Component::Gradients:
      return "gradients";
    case Component::Optimizer:
      return "optimizer";
    case Component::Activations:
      return "activations";
    case Component::Transfers:
      return "transfers";
    case Component::Workspace:
      return "workspace";
  }
  return "";
}

Bytes bytes_of(const Buffer& buffer, Precision precision) {
  return bytes_per_element(buffer.element, precision) * buffer.count;
}

Bytes expected_bytes_of(const Buffer& buffer, Precision precision) {
  return bytes_per_element(buffer.element, precision) * buffer.expected.value_or(buffer.count);
}

std::string program_text(const Program& program) {
  std::string text;
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& task = program.tasks[i];
    text += fmt::format("{:>5} {:<12}", i, program.lanes[task.lane.index()]);
    text += task.microbatch ? fmt::format(" m{:<3}", *task.microbatch) : std::string("     ");
    if (task.recompute) text += " again";
    text += what_text(program, task) + " (";
    const auto operands = program.operands_of(task);
    const std::size_t own = operands.size() - (task.has_predicate ? 1 : 0);
    for (std::size_t o = 0; o < own; ++o) {
      text +=
          fmt::format("{}{}", o == 0 ? "" : ", ", program.buffers[operands[o].index()].name.text());
    }
    text += ")";
    if (task.has_predicate) {
      text += fmt::format(" if {}", program.buffers[operands.back().index()].name.text());
    }
    for (const TaskId wait : program.waits_of(task)) text += fmt::format(" after {}", wait.index());
    text += "\n";
  }
  return text;
}

}  // namespace meshwright
