#include "gui/graph_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace meshwright {
namespace {

// Names of ops whose kernels run again, in any of the programs.
std::set<std::string, std::less<>> recomputed_ops(const std::vector<Program>& programs) {
  std::set<std::string, std::less<>> names;
  for (const Program& program : programs) {
    // Many tasks run the same kernel.
    std::vector<bool> runs_again(program.kernels.size());
    for (const Task& task : program.tasks) {
      if (task.recompute && task.kind == TaskKind::Kernel) runs_again[task.what] = true;
    }
    for (std::size_t i = 0; i < runs_again.size(); ++i) {
      if (runs_again[i]) names.emplace(fmt::format("{}", program.kernels[i].name));
    }
  }
  return names;
}

std::set<std::string, std::less<>> offloaded_tensors(const Plan& plan) {
  std::set<std::string, std::less<>> names;
  for (const OffloadedTensors& tensors : plan.offload) {
    names.insert(tensors.tensors.begin(), tensors.tensors.end());
  }
  return names;
}

// Of several that name an op the last one counts.
const OpPlan* plan_of_op(const Plan& plan, const std::string& name) {
  const auto found = std::ranges::find(plan.ops.rbegin(), plan.ops.rend(), name, &OpPlan::op);
  return found == plan.ops.rend() ? nullptr : &*found;
}

class RowWriter {
 public:
  RowWriter(const Model& model, const Plan& plan, const std::vector<Program>& programs)
      : model_(model),
        plan_(plan),
        recomputed_(recomputed_ops(programs)),
        offloaded_(offloaded_tensors(plan)) {}

  void add(const Block& block) {
    rows_.push_back({.is_block = true,
                     .name = block.name,
                     .kind = block.count > 1 ? fmt::format("\u00d7 {}", block.count) : ""});
    std::map<std::size_t, std::size_t> producers;
    for (const Op& op : block.ops) {
      for (const TensorId output : op.outputs) producers[output.index()] = rows_.size();
      rows_.push_back(row_of(block, op, producers));
    }
  }
  std::vector<GraphRow> take() { return std::move(rows_); }

 private:
  std::string axes_text(const std::vector<AxisId>& axes) const {
    std::string text;
    const Mesh& mesh = plan_.slots.front().mesh;
    for (const AxisId axis : axes) {
      if (mesh.size(axis) > 1) text += "/" + mesh.axis(axis).name;
    }
    return text;
  }

  std::string dims_text(const std::vector<DimId>& dims, const OpPlan* plan, bool batch) const {
    std::string text;
    for (const DimId dim : dims) {
      const Dim& named = model_.dims[dim.index()];
      text += (text.empty() ? "" : " ") + named.name;
      if (batch && named.role == DimRole::Batch) text += axes_text(plan_.batch_axes);
      if (!plan) continue;
      const auto cut = plan->work.find(dim);
      if (cut != plan->work.end()) text += axes_text(cut->second.axes);
    }
    return text;
  }

  GraphRow row_of(const Block& block, const Op& op,
                  const std::map<std::size_t, std::size_t>& producers) const {
    const OpPlan* plan = plan_of_op(plan_, op.name);
    const auto star = op.name.find("*.");
    GraphRow row{.name = star == op.name.npos ? op.name : op.name.substr(star + 2),
                 .kind = std::string(to_text(op.kind))};
    if (plan && plan->implementation != Implementation::Local) {
      row.kind += fmt::format(", {}", to_text(plan->implementation));
    }
    if (!op.outputs.empty()) {
      row.output = dims_text(block.tensors[op.outputs.front().index()].dims, plan, true);
    }
    for (const WeightUse& use : op.weights) {
      const Weight& weight =
          use.shared ? model_.shared_weights[use.id.index()] : block.weights[use.id.index()];
      row.weight +=
          fmt::format("{}[{}]", row.weight.empty() ? "" : " ", dims_text(weight.dims, plan, false));
    }
    for (const TensorId input : op.inputs) {
      const auto found = producers.find(input.index());
      if (found != producers.end()) row.inputs.push_back(found->second);
    }
    const auto in = [&](const auto& names) {
      return std::ranges::any_of(op.names,
                                 [&](const std::string& name) { return names.contains(name); });
    };
    row.recomputed = in(recomputed_);
    row.offloaded = in(offloaded_);
    return row;
  }

  const Model& model_;
  const Plan& plan_;
  const std::set<std::string, std::less<>> recomputed_, offloaded_;
  std::vector<GraphRow> rows_;
};

}  // namespace

std::vector<GraphRow> graph_rows(const Model& model, const Plan& plan,
                                 const std::vector<Program>& programs) {
  RowWriter writer(model, plan, programs);
  for (const Block& block : model.blocks) writer.add(block);
  return writer.take();
}

}  // namespace meshwright
