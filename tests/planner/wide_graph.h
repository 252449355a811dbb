#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "costmodel/model/graph_builder.h"

namespace meshwright {

// A model of layers with many branches that are added up in pairs: of a layer's products, which
// keep nothing, any may have to be computed again, so that what is decided about one result depends
// on many others.
inline OpGraph wide_graph(std::int64_t layers, std::size_t branches) {
  GraphBuilder graph("wide");
  const std::vector<DimId> tokens = {graph.batch(), graph.sequence()};
  const DimId hidden = graph.dim("hidden", 1024), inner = graph.dim("inner", 256);
  const DimId vocabulary = graph.dim("vocabulary", 1000);
  const WeightId table = graph.weight("table", {vocabulary, hidden});
  TensorId x = graph.embedding("embed", graph.input("tokens", tokens, Element::Index), table);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::string prefix = fmt::format("layers.{}.", layer);
    x = graph.norm(OpKind::RmsNorm, prefix + "norm", x, prefix + "norm", {hidden}, {});
    std::vector<TensorId> products;
    for (std::size_t b = 0; b < branches; ++b) {
      const std::string name = fmt::format("{}in{}", prefix, b);
      products.push_back(graph.dense(name, x, name, {hidden}, {inner}, false));
    }
    for (std::size_t b = 0; b < branches; ++b) {
      const std::string name = fmt::format("{}pair{}", prefix, b);
      const TensorId pair = graph.add(name, products[b], products[(5 * b + 7) % branches]);
      const TensorId active =
          graph.elementwise(OpKind::Activation, fmt::format("{}active{}", prefix, b), pair,
                            FunctionAttributes{Function::Gelu});
      const std::string out = fmt::format("{}out{}", prefix, b);
      x = graph.add(fmt::format("{}sum{}", prefix, b), x,
                    graph.dense(out, active, out, {inner}, {hidden}, false));
    }
  }
  const TensorId logits =
      graph.linear("logits", x, {table, std::nullopt}, joined(tokens, {vocabulary}));
  graph.op(OpKind::CrossEntropy, "loss", {logits, graph.input("labels", tokens, Element::Index)},
           {}, {}, {});
  return graph.finish("wide");
}

}  // namespace meshwright
