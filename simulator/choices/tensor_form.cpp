#include "simulator/choices/tensor_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "costmodel/model/op_rules.h"

namespace meshwright {
namespace {

constexpr std::array<std::string_view, 6> kTensorDims = {"heads",      "kv_heads",   "ffn",
                                                         "expert_ffn", "shared_ffn", "vocabulary"};

// The whole number whose square, or cube, this is.
std::optional<std::int64_t> root_of(std::int64_t number, int power) {
  for (std::int64_t root = 1;; ++root) {
    std::int64_t whole = 1;
    for (int i = 0; i < power; ++i) whole *= root;
    if (whole == number) return root;
    if (whole > number) return std::nullopt;
  }
}

// Rows and columns. None: the devices cannot be laid out so.
std::optional<std::int64_t> side_of(const PlanChoices& choices) {
  const std::int64_t depth = choices.tensor == TensorForm::TwoAndHalfD ? choices.depth : 1;
  if (choices.tp % depth != 0) return std::nullopt;
  const auto side = root_of(choices.tp / depth, choices.tensor == TensorForm::ThreeD ? 3 : 2);
  return side && *side > 1 ? side : std::nullopt;
}

// The work of one op.
class OpDivision {
 public:
  OpDivision(const PlanChoices& choices, const Model& model, const Mesh& mesh, const OpView& view)
      : model_(model),
        view_(view),
        row_(*mesh.find("tp_row")),
        column_(*mesh.find("tp_col")),
        summa_(choices.summa),
        plan_{.op = view.op->name} {
    if (choices.tensor == TensorForm::ThreeD) third_ = mesh.find("tp_depth");
  }

  OpPlan run() {
    const auto within = tensor_dim();
    const bool product = view_.op->kind == OpKind::Matmul;
    const bool table = view_.op->kind == OpKind::Embedding && within;
    if (product && summa_) {
      divide_summa(within);
    } else if (product || table) {
      divide_product(within);
      share_matrix(within);
    } else if (within) {
      cut(*within, both());
    } else {
      divide_between();
    }
    return std::move(plan_);
  }

 private:
  std::optional<DimId> tensor_dim() const {
    for (const DimId dim : all_dims()) {
      if (is_tensor_dim(model_.dims[dim.index()])) return dim;
    }
    return std::nullopt;
  }

  std::set<DimId> all_dims() const {
    std::set<DimId> dims;
    for (const Tensor* t : view_.inputs) dims.insert(t->dims.begin(), t->dims.end());
    for (const Tensor* t : view_.outputs) dims.insert(t->dims.begin(), t->dims.end());
    for (const Weight* w : view_.weights) dims.insert(w->dims.begin(), w->dims.end());
    return dims;
  }

  // The axes within a layer.
  std::vector<AxisId> both() const {
    return third_ ? std::vector{*third_, column_} : std::vector{column_};
  }

  void cut(DimId dim, std::vector<AxisId> axes) { plan_.work[dim].axes = std::move(axes); }

  void scatter(AxisId axis, DimId to) {
    plan_.relayouts.outputs[0].push_back(
        {.kind = RelayoutKind::ReduceScatter, .axes = {axis}, .to = to});
  }

  DimId last_of_result() const { return view_.outputs[0]->dims.back(); }
  std::optional<DimId> sequence() const {
    for (const DimId dim : view_.outputs[0]->dims) {
      if (model_.dims[dim.index()].role == DimRole::Sequence) return dim;
    }
    return std::nullopt;
  }

  std::optional<DimId> contracted_dim() const {
    for (const DimId dim : view_.weights[0]->dims) {
      if (use_of(view_, dim) == DimUse::Contracted) return dim;
    }
    return std::nullopt;
  }

  // What the parts of a sum are added up to is cut by the axis the sum is over.
  void divide_product(const std::optional<DimId>& within) {
    if (!within) {  // between dimensions that are cut alike
      if (third_ && sequence()) cut(*sequence(), {*third_});
      if (const auto contracted = contracted_dim()) cut(*contracted, {column_});
      return scatter(column_, last_of_result());
    }
    const bool sums_within = use_of(view_, *within) == DimUse::Contracted;
    cut(*within, {third_.value_or(column_)});
    if (!third_) {
      if (sums_within) scatter(column_, last_of_result());
      return;
    }
    if (sums_within) {
      cut(last_of_result(), {column_});
      if (sequence()) scatter(*third_, *sequence());
    } else if (const auto contracted = contracted_dim()) {
      cut(*contracted, {column_});
      scatter(column_, *within);
    }
  }

  // Results are cut by columns; the input and the matrix both along what is summed over.
  void divide_summa(const std::optional<DimId>& within) {
    const bool out = within && use_of(view_, *within) != DimUse::Contracted;
    cut(out ? *within : last_of_result(), {column_});
    if (const auto contracted = contracted_dim()) share_along(*contracted);
    plan_.implementation = Implementation::Summa;
  }

  // A matrix lies cut over the rows besides: along a dimension that is not cut yet, or else once
  // more along its longest.
  void share_matrix(const std::optional<DimId>& within) {
    std::optional<DimId> shared;
    const auto rank = [&](DimId dim) {
      return std::pair(!plan_.work.contains(dim), model_.dims[dim.index()].size);
    };
    for (const DimId dim : view_.weights[0]->dims) {
      if (dim != within && (!shared || rank(dim) > rank(*shared))) shared = dim;
    }
    if (shared) share_along(*shared);
  }

  void share_along(DimId dim) {
    plan_.relayouts.weights[0] = {{.kind = RelayoutKind::AllGather, .axes = {row_}, .from = dim}};
    plan_.relayouts.weight_gradients[0] = {
        {.kind = RelayoutKind::ReduceScatter, .axes = {row_}, .to = dim}};
  }

  // Between products everything is cut as residuals are.
  void divide_between() {
    for (const DimId dim : view_.outputs[0]->dims) {
      const DimUse use = use_of(view_, dim);
      const DimRole role = model_.dims[dim.index()].role;
      if (use == DimUse::Whole) continue;
      if (third_ && role == DimRole::Sequence) cut(dim, {*third_});
      if (role == DimRole::Fixed && dim == last_of_result()) cut(dim, {column_});
    }
  }

  const Model& model_;
  const OpView& view_;
  const AxisId row_, column_;
  const bool summa_;
  std::optional<AxisId> third_;  // of 3d
  OpPlan plan_;
};

}  // namespace

bool is_tensor_dim(const Dim& dim) {
  return std::ranges::find(kTensorDims, dim.name) != kTensorDims.end();
}

TensorMesh tensor_mesh(const PlanChoices& choices) {
  if (choices.tensor == TensorForm::OneD) return {.axes = {{"tp", choices.tp}}};
  const std::int64_t side = *side_of(choices);
  TensorMesh mesh{.axes = {{"tp_row", side}, {"tp_col", side}}, .batch_parts = side};
  if (choices.tensor == TensorForm::TwoD) return mesh;
  const bool cube = choices.tensor == TensorForm::ThreeD;
  const std::int64_t depth = cube ? side : choices.depth;
  mesh.axes.insert(mesh.axes.begin(), {"tp_depth", depth});
  if (!cube) mesh.batch_parts *= depth;
  return mesh;
}

bool cuts_batch(const PlanChoices& choices, const std::string& axis) {
  if (axis == "tp" || axis == "tp_col") return false;
  return axis != "tp_depth" || choices.tensor == TensorForm::TwoAndHalfD;
}

void check_tensor(std::vector<std::string>& problems, const PlanChoices& choices,
                  const BatchChoice& batch) {
  const std::string form = fmt::format("tensor={}", to_text(choices.tensor));
  if (choices.depth > 1 && choices.tensor != TensorForm::TwoAndHalfD) {
    problems.push_back(fmt::format("depth={}: only tensor=2.5d has layers", choices.depth));
  }
  const bool square =
      choices.tensor == TensorForm::TwoD || choices.tensor == TensorForm::TwoAndHalfD;
  if (choices.summa && !square) {
    problems.push_back(fmt::format("summa=true: {} has no squares of devices", form));
  }
  if (choices.tensor == TensorForm::OneD) return;
  if (choices.sequence_parallel) {
    problems.push_back(
        fmt::format("sequence_parallel=true: {} cuts what lies between products "
                    "already",
                    form));
  }
  if (!side_of(choices)) {
    const bool cube = choices.tensor == TensorForm::ThreeD;
    const std::string layers = choices.depth > 1 ? fmt::format("depth={} x ", choices.depth) : "";
    problems.push_back(fmt::format("{}: tp={} is not {}{} of at least 2", form, choices.tp, layers,
                                   cube ? "the cube" : "the square"));
    return;
  }
  const TensorMesh mesh = tensor_mesh(choices);
  if (choices.microbatch % mesh.batch_parts != 0) {
    problems.push_back(fmt::format("{}: its {} rows of devices do not divide a micro-batch of {}",
                                   form, mesh.batch_parts, choices.microbatch));
  }
  const std::int64_t side = mesh.axes.back().size;
  if (choices.tensor == TensorForm::ThreeD && batch.sequence % side != 0) {
    problems.push_back(fmt::format("{}: tp_depth={} does not divide a sequence of {}", form, side,
                                   batch.sequence));
  }
}

std::vector<OpPlan> divided_products(const PlanChoices& choices, const Model& model,
                                     const Mesh& mesh) {
  std::vector<OpPlan> ops;
  std::set<std::string> named;
  for (const Block& block : model.blocks) {
    for (const Op& op : block.ops) {
      if (!named.insert(op.name).second) continue;
      const OpView view = view_of(model, block, op);
      if (view.outputs[0]->dims.empty() && view.op->kind != OpKind::CrossEntropy) continue;
      OpPlan plan = OpDivision(choices, model, mesh, view).run();
      if (!plan.work.empty()) ops.push_back(std::move(plan));
    }
  }
  return ops;
}

}  // namespace meshwright
