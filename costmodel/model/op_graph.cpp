#include "costmodel/model/op_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/base/checked.h"
#include "costmodel/base/input_error.h"
#include "costmodel/model/check_op.h"

namespace meshwright {
namespace {

using Dims = std::vector<DimId>;

bool repeats_a_dim(Dims dims) {
  std::sort(dims.begin(), dims.end());
  return std::adjacent_find(dims.begin(), dims.end()) != dims.end();
}

std::int64_t elements_of(const OpGraph& graph, const GraphWeight& weight) {
  std::int64_t count = 1;
  for (const DimId dim : weight.dims) count = checked_multiply(count, graph.dims[dim.index()].size);
  return count;
}

// Every function throws if something is wrong.
class GraphCheck {
 public:
  GraphCheck(const OpGraph& graph, const std::string& source) : graph_(graph), source_(source) {}

  void run() const {
    check_dims();
    check_weights();
    if (graph_.ops.empty()) throw InputError(fmt::format("{}: the graph has no ops", source_));
    check_ops();
    check_readers();
  }

 private:
  [[noreturn]] void fail(std::string_view what, const std::string& name,
                         std::string_view problem) const {
    throw InputError(fmt::format("{}: {} {}: {}", source_, what, printable(name), problem));
  }

  std::string tensor_name(TensorId id) const { return printable(graph_.tensors[id.index()].name); }

  void check_dims() const {
    const Dim* batch = nullptr;
    for (const Dim& dim : graph_.dims) {
      if (dim.size < 1 || dim.size > kLargestDim) {
        fail("dimension", dim.name,
             fmt::format("expected a size from 1 to {}, found {}", kLargestDim, dim.size));
      }
      if (dim.role != DimRole::Batch) continue;
      if (batch) fail("dimension", dim.name, "there is a batch already, " + printable(batch->name));
      batch = &dim;
    }
    for (const Tensor& tensor : graph_.tensors) {
      if (repeats_a_dim(tensor.dims)) fail("tensor", tensor.name, "has a dimension twice");
    }
  }

  void check_weights() const {
    std::int64_t parameters = 0;
    for (const GraphWeight& weight : graph_.weights) {
      if (repeats_a_dim(weight.dims)) fail("weight", weight.name, "has a dimension twice");
      try {
        parameters = checked_add(parameters, elements_of(graph_, weight));
      } catch (const InputError& error) {
        fail("weight", weight.name, error.what());
      }
    }
  }

  void check_ops() const {
    std::vector<bool> written(graph_.tensors.size(), false);
    for (const TensorId input : graph_.inputs) written[input.index()] = true;
    for (const GraphOp& op : graph_.ops) {
      for (const TensorId input : op.inputs) {
        if (written[input.index()]) continue;
        fail("op", op.name,
             fmt::format("reads {} before any op has written it", tensor_name(input)));
      }
      for (const TensorId output : op.outputs) {
        if (written[output.index()]) {
          fail("op", op.name,
               fmt::format("writes {}, which is written already", tensor_name(output)));
        }
        written[output.index()] = true;
      }
      const std::string problem = problem_of(graph_, op);
      if (!problem.empty()) fail("op", op.name, problem);
    }
  }

  // Only losses and the last op's results are nobody's input: what is computed for nothing would be
  // trained without a gradient.
  void check_readers() const {
    std::vector<bool> read(graph_.tensors.size(), false), used(graph_.weights.size(), false);
    for (const GraphOp& op : graph_.ops) {
      for (const TensorId input : op.inputs) read[input.index()] = true;
      for (const WeightId weight : op.weights) used[weight.index()] = true;
    }
    for (const GraphOp& op : graph_.ops) {
      for (const TensorId output : op.outputs) {
        const bool loss = op.kind == OpKind::CrossEntropy;
        if (loss && read[output.index()]) {
          fail("op", op.name, "a loss is the end of a graph, and another op reads it");
        }
        if (loss || read[output.index()] || &op == &graph_.ops.back()) continue;
        fail("op", op.name, fmt::format("no op reads {}: leave it out", tensor_name(output)));
      }
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) fail("weight", graph_.weights[i].name, "no op uses it: leave it out");
    }
  }

  const OpGraph& graph_;
  const std::string& source_;
};

}  // namespace

void check_graph(const OpGraph& graph, const std::string& source) {
  GraphCheck(graph, source).run();
}

OpGraph with_gradients(OpGraph graph) {
  for (Tensor& tensor : graph.tensors) tensor.needs_gradient = false;
  for (const GraphOp& op : graph.ops) {
    const bool trains = std::any_of(op.weights.begin(), op.weights.end(),
                                    [&](WeightId w) { return !graph.weights[w.index()].frozen; });
    const bool passes = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId t) {
      return graph.tensors[t.index()].needs_gradient;
    });
    for (const TensorId output : op.outputs) {
      Tensor& tensor = graph.tensors[output.index()];
      tensor.needs_gradient = (trains || passes) && tensor.element == Element::Real;
    }
  }
  return graph;
}

}  // namespace meshwright
