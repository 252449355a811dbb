#include "simulator/layout/op_layouts.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>

#include "costmodel/model/model_name.h"
#include "tests/simulator/layout_examples.h"

namespace meshwright {
namespace {

using Dims = std::vector<DimId>;

// Names for the dimensions of the ops below.
const std::vector<Dim> kDims = {{.name = "rows"}, {.name = "in"}, {.name = "out"}, {.name = "odd"}};
const DimId rows(0), in(1), out(2), odd(3);

// An op and its operands, which its view points to.
class Example {
 public:
  Example(OpKind kind, const std::vector<Dims>& inputs, const std::vector<Dims>& weights,
          const std::vector<Dims>& outputs, OpAttributes attributes = {})
      : op_{.kind = kind, .name = "op", .attributes = std::move(attributes)} {
    for (const Dims& dims : inputs) tensors_.push_back({.name = "x", .dims = dims});
    for (const Dims& dims : weights) weights_.push_back({.names = {"w"}, .dims = dims});
    for (const Dims& dims : outputs) tensors_.push_back({.name = "y", .dims = dims});
    inputs_ = inputs.size();
  }

  OpView view() const {
    OpView view{.op = &op_};
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      (i < inputs_ ? view.inputs : view.outputs).push_back(&tensors_[i]);
    }
    for (const Weight& weight : weights_) view.weights.push_back(&weight);
    return view;
  }

 private:
  Op op_;
  std::size_t inputs_ = 0;
  std::vector<Tensor> tensors_;
  std::vector<Weight> weights_;
};

OpLayouts divided(const Example& example, const Mesh& mesh, const DividedWork& work) {
  return std::get<OpLayouts>(layouts_of(example.view(), kDims, mesh, work));
}

std::vector<std::string> reasons(const Example& example, const Mesh& mesh,
                                 const DividedWork& work) {
  return std::get<NotDivisible>(layouts_of(example.view(), kDims, mesh, work)).reasons;
}

Layout layout(const std::vector<std::pair<DimId, std::vector<AxisId>>>& dims) {
  Layout result;
  for (const auto& [dim, axes] : dims) result.dims.push_back({dim, {.axes = axes}});
  return result;
}

const Example kLinear(OpKind::Matmul, {{rows, in}}, {{in, out}, {out}}, {{rows, out}});

}  // namespace

TEST_CASE("a matmul cut along its result needs a cut weight and gives a cut result") {
  const OpLayouts column = divided(kLinear, mesh_of({2, 4}), {{rows, {{a}}}, {out, {{b}}}});
  CHECK(column.inputs == std::vector{layout({{rows, {a}}, {in, {}}})});
  CHECK(column.weights == std::vector{layout({{in, {}}, {out, {b}}}), layout({{out, {b}}})});
  CHECK(column.outputs == std::vector{layout({{rows, {a}}, {out, {b}}})});
  // The reductions of Megatron's backward pass, and of data parallelism.
  CHECK(column.input_gradients == std::vector{partial(layout({{rows, {a}}, {in, {}}}), {b})});
  CHECK(column.weight_gradients == std::vector{partial(layout({{in, {}}, {out, {b}}}), {a}),
                                               partial(layout({{out, {b}}}), {a})});
}

TEST_CASE("a matmul cut along what it sums over gives a partial sum, to which no bias is added") {
  const OpLayouts row = divided(kLinear, mesh_of({2, 4}), {{rows, {{a}}}, {in, {{b}}}});
  CHECK(row.inputs == std::vector{layout({{rows, {a}}, {in, {b}}})});
  CHECK(row.weights == std::vector{layout({{in, {b}}, {out, {}}}), layout({{out, {}}})});
  CHECK(row.outputs == std::vector{partial(layout({{rows, {a}}, {out, {}}}), {b})});
  CHECK(row.added_weights == std::vector<std::size_t>{1});
  // The gradient that comes in is whole along b, so that of the bias is too.
  CHECK(row.weight_gradients[1] == partial(layout({{out, {}}}), {a}));
  CHECK(row.input_gradients == std::vector{layout({{rows, {a}}, {in, {b}}})});
}

TEST_CASE("an embedding may be cut along its vocabulary") {
  const Example embedding(OpKind::Embedding, {{rows}}, {{in, out}}, {{rows, out}});
  const OpLayouts layouts = divided(embedding, mesh_of({4}), {{in, {{a}}}});
  CHECK(layouts.inputs == std::vector{layout({{rows, {}}})});
  CHECK(layouts.weights == std::vector{layout({{in, {a}}, {out, {}}})});
  CHECK(layouts.outputs == std::vector{partial(layout({{rows, {}}, {out, {}}}), {a})});
}

TEST_CASE("a loss over a cut vocabulary asks for statistics, over cut tokens it is a partial sum") {
  const Example loss(OpKind::CrossEntropy, {{rows, out}, {rows}}, {}, {{}});
  const OpLayouts layouts = divided(loss, mesh_of({2, 4}), {{rows, {{a}}}, {out, {{b}}}});
  CHECK(layouts.inputs == std::vector{layout({{rows, {a}}, {out, {b}}}), layout({{rows, {a}}})});
  CHECK(layouts.outputs == std::vector{partial(Layout{}, {a})});
  CHECK(layouts.statistics ==
        std::vector<SharedStatistics>{{out, {b}, PendingReduction::LogSumExp}});
}

TEST_CASE("a norm over a cut dimension asks for sums") {
  const Example norm(OpKind::LayerNorm, {{rows, in}}, {{in}, {in}}, {{rows, in}});
  const OpLayouts layouts = divided(norm, mesh_of({4}), {{in, {{a}}}});
  CHECK(layouts.outputs == std::vector{layout({{rows, {}}, {in, {a}}})});
  CHECK(layouts.statistics == std::vector<SharedStatistics>{{in, {a}, PendingReduction::Sum}});
  CHECK(divided(norm, mesh_of({4}), {{rows, {{a}}}}).statistics.empty());
}

TEST_CASE("what cannot be divided says every reason") {
  const Example rope(OpKind::Rope, {{rows, in}}, {}, {{rows, in}});
  CHECK(reasons(rope, mesh_of({4}), {{rows, {{a}}}, {in, {{a}}}}) ==
        std::vector<std::string>{"op: dimension in must be whole",
                                 "op: axis a cuts both rows and in"});
}

TEST_CASE("a piece of a joined result cannot be cut") {
  const Example concat(OpKind::Concat, {{rows, in}, {rows, odd}}, {}, {{rows, out}},
                       AxisAttributes{out});
  CHECK(reasons(concat, mesh_of({4}), {{odd, {{a}}}}) ==
        std::vector<std::string>{"op: dimension odd must be whole"});
  CHECK(divided(concat, mesh_of({4}), {{rows, {{a}}}}).outputs ==
        std::vector{layout({{rows, {a}}, {out, {}}})});
}

TEST_CASE("a piece of a split tensor cannot be cut where the whole was") {
  const Example split(OpKind::Split, {{rows, out}}, {}, {{rows, in}, {rows, odd}},
                      AxisAttributes{out});
  CHECK(reasons(split, mesh_of({4}), {{odd, {{a}}}}) ==
        std::vector<std::string>{"op: dimension odd must be whole"});
  CHECK(divided(split, mesh_of({4}), {{rows, {{a}}}}).outputs ==
        std::vector{layout({{rows, {a}}, {in, {}}}), layout({{rows, {a}}, {odd, {}}})});
}

TEST_CASE("an op known by its dimensions alone is cut along those that survive") {
  const Example generic(OpKind::Generic, {{rows, in}}, {}, {{rows, out}},
                        GenericAttributes{"fourier"});
  const OpLayouts layouts = divided(generic, mesh_of({4}), {{rows, {{a}}}});
  CHECK(layouts.outputs == std::vector{layout({{rows, {a}}, {out, {}}})});
  CHECK_FALSE(layouts.replicated_because);
  CHECK(reasons(generic, mesh_of({4}), {{in, {{a}}}}) ==
        std::vector<std::string>{"op: dimension in must be whole"});
}

TEST_CASE("an op without any rule is replicated and says so") {
  const Example sort(OpKind::Generic, {{rows}}, {}, {{}}, GenericAttributes{"sort"});
  const OpLayouts layouts = divided(sort, mesh_of({4}), {{rows, {{a}}}});
  CHECK(layouts.inputs == std::vector{layout({{rows, {}}})});
  CHECK(layouts.replicated_because ==
        "op: no rule says how to divide sort; every device repeats it");
}

TEST_CASE("dimensions an op does not have do not cut it") {
  CHECK(divided(kLinear, mesh_of({4}), {{odd, {{a}}}}) == divided(kLinear, mesh_of({4}), {}));
}

namespace {

using Matrix = std::vector<std::vector<std::int64_t>>;

Matrix random_matrix(std::int64_t height, std::int64_t width) {
  return *rc::gen::container<Matrix>(
      static_cast<std::size_t>(height),
      rc::gen::container<std::vector<std::int64_t>>(static_cast<std::size_t>(width),
                                                    between<std::int64_t>(-9, 10)));
}

// Everything outside a device's shard set to 0.
Matrix masked(const Matrix& whole, const Layout& layout, const Mesh& mesh, DeviceId device) {
  const auto shard = shard_of(
      layout, mesh,
      {static_cast<std::int64_t>(whole.size()), static_cast<std::int64_t>(whole[0].size())},
      device);
  Matrix part(whole.size(), std::vector<std::int64_t>(whole[0].size(), 0));
  for (const ShardRange& h : shard[0]) {
    for (const ShardRange& w : shard[1]) {
      for (auto i = static_cast<std::size_t>(h.start);
           i < static_cast<std::size_t>(h.start + h.size); ++i) {
        for (auto j = static_cast<std::size_t>(w.start);
             j < static_cast<std::size_t>(w.start + w.size); ++j) {
          part[i][j] = whole[i][j];
        }
      }
    }
  }
  return part;
}

Matrix product(const Matrix& x, const Matrix& w) {
  Matrix y(x.size(), std::vector<std::int64_t>(w[0].size(), 0));
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t k = 0; k < w.size(); ++k) {
      for (std::size_t j = 0; j < w[0].size(); ++j) y[i][j] += x[i][k] * w[k][j];
    }
  }
  return y;
}

void add(Matrix& sum, const Matrix& term) {
  for (std::size_t i = 0; i < sum.size(); ++i) {
    for (std::size_t j = 0; j < sum[0].size(); ++j) sum[i][j] += term[i][j];
  }
}

}  // namespace

TEST_CASE("a matmul divided in any way gives what its layouts promise") {
  CHECK(rc::check([] {
    const Mesh mesh = random_mesh();
    const Example matmul(OpKind::Matmul, {{rows, in}}, {{in, out}}, {{rows, out}});
    const Layout random = random_layout(mesh, 3, false);
    DividedWork work;
    for (const DimLayout& dim : random.dims) work[dim.dim] = dim.sharding;
    const OpLayouts layouts = divided(matmul, mesh, work);

    const std::vector<std::int64_t> sizes = random_sizes(3);
    const Matrix x = random_matrix(sizes[0], sizes[1]);
    const Matrix w = random_matrix(sizes[1], sizes[2]);
    const std::vector<AxisId> pending =
        layouts.outputs[0].partial ? layouts.outputs[0].partial->axes : std::vector<AxisId>{};
    for (const std::vector<DeviceId>& group : mesh.groups(pending)) {
      Matrix sum(x.size(), std::vector<std::int64_t>(w[0].size(), 0));
      for (const DeviceId device : group) {
        add(sum, product(masked(x, layouts.inputs[0], mesh, device),
                         masked(w, layouts.weights[0], mesh, device)));
      }
      RC_ASSERT(sum == masked(product(x, w), layouts.outputs[0], mesh, group[0]));
    }
  }));
}

TEST_CASE("Megatron's layer follows from cutting heads and the feed-forward width of GPT-2") {
  const Model model = make_model(read_model("gpt2", MESHWRIGHT_DATA));
  const Mesh mesh = mesh_of({2, 4});
  DividedWork work = {{DimId(0), {{a}}}};
  for (std::size_t i = 0; i < model.dims.size(); ++i) {
    const std::string& name = model.dims[i].name;
    if (name == "heads" || name == "ffn") work[DimId(i)] = {{b}};
  }
  REQUIRE(work.size() == 3);
  std::vector<std::string> partial_ops;
  for (const Block& block : model.blocks) {
    for (const Op& op : block.ops) {
      if (op.kind == OpKind::CrossEntropy) continue;  // partial over the batch
      const auto derived = layouts_of(view_of(model, block, op), model.dims, mesh, work);
      REQUIRE(std::holds_alternative<OpLayouts>(derived));
      for (const Layout& output : std::get<OpLayouts>(derived).outputs) {
        if (output.partial) partial_ops.push_back(op.name);
      }
    }
  }
  // The two all-reduces of a layer.
  CHECK(partial_ops == std::vector<std::string>{"layers.*.attention.output", "layers.*.ffn.down"});
}

}  // namespace meshwright
