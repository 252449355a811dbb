#include "simulator/choices/recompute_segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "simulator/choices/model_layers.h"

namespace meshwright {
namespace {

std::vector<RecomputeSegment> attention_segments(const Model& model) {
  std::vector<RecomputeSegment> segments;
  std::size_t first = 0;
  for (const Block& block : model.blocks) {
    for (std::int64_t r = 0; r < block.count; ++r) {
      for (const Op& op : block.ops) {
        if (op.kind == OpKind::Attention) {
          segments.push_back({.first_op = first, .end_op = first + 1});
        }
        ++first;
      }
    }
  }
  return segments;
}

// Attention and the first, third ... product of a layer, as torchtitan keeps them
// (activation_checkpoint.py).
std::vector<std::string> kept_products(const OpGraph& graph, const RecomputeSegment& layer) {
  std::vector<std::string> kept;
  bool keeps_next = true;
  for (std::size_t op = layer.first_op; op < layer.end_op; ++op) {
    const OpKind kind = graph.ops[op].kind;
    const bool is_product = kind == OpKind::Matmul;
    if ((is_product && keeps_next) || kind == OpKind::Attention) {
      kept.push_back(graph.tensors[graph.ops[op].outputs[0].index()].name);
    }
    if (is_product) keeps_next = !keeps_next;
  }
  return kept;
}

// What a layer keeps that drops tensors by name.
std::vector<std::string> kept_beside_dropped(const OpGraph& graph, const OpRange& layer,
                                             const std::vector<std::string>& dropped) {
  std::vector<std::string> kept;
  for (std::size_t op = layer.first_op; op < layer.end_op; ++op) {
    for (const TensorId tensor : graph.ops[op].outputs) {
      const std::string& name = graph.tensors[tensor.index()].name;
      const auto names = [&](const std::string& one) { return is_named(name, one); };
      if (std::ranges::none_of(dropped, names)) kept.push_back(name);
    }
  }
  return kept;
}

std::vector<RecomputeSegment> dropping_segments(const RecomputeChoice& recompute,
                                                const Model& model,
                                                const std::vector<Chunk>& chunks) {
  const OpGraph graph = unroll(model);
  const ModelLayers layers = find_layers(model);
  std::vector<RecomputeSegment> segments;
  for (const Chunk& chunk : chunks) {
    std::int64_t left = recompute.layers > 0 ? recompute.layers : layers.count();
    for (const OpRange& layer : layers_in(layers, chunk)) {
      const std::vector<std::string>& dropped = left-- > 0 ? recompute.dropped : recompute.others;
      if (dropped.empty()) break;
      segments.push_back({.first_op = layer.first_op,
                          .end_op = layer.end_op,
                          .kept = kept_beside_dropped(graph, layer, dropped)});
    }
  }
  return segments;
}

}  // namespace

bool is_named(std::string_view tensor, std::string_view name) {
  return tensor.size() > name.size() && tensor.ends_with(name) &&
         tensor[tensor.size() - name.size() - 1] == '.';
}

std::vector<RecomputeSegment> recompute_segments(const PlanChoices& choices, const Model& model,
                                                 const std::vector<Chunk>& chunks) {
  if (choices.recompute.kind == Recompute::Drop) {
    return dropping_segments(choices.recompute, model, chunks);
  }
  std::vector<RecomputeSegment> segments;
  if (choices.recompute.kind == Recompute::Selective) segments = attention_segments(model);
  const ModelLayers layers = find_layers(model);
  const auto count = static_cast<std::size_t>(choices.recompute.layers);
  for (const Chunk& chunk : chunks) {
    const auto inside = layers_in(layers, chunk);
    if (choices.recompute.kind == Recompute::Uniform ||
        choices.recompute.kind == Recompute::Products) {
      for (std::size_t i = 0; i < inside.size(); i += count) {
        const OpRange& last = inside[std::min(i + count, inside.size()) - 1];
        segments.push_back({.first_op = inside[i].first_op, .end_op = last.end_op});
      }
    }
    for (std::size_t i = 0; choices.recompute.kind == Recompute::First && i < inside.size(); ++i) {
      if (i < count) segments.push_back({inside[i].first_op, inside[i].end_op});
    }
  }
  if (choices.recompute.kind == Recompute::Products) {
    const OpGraph graph = unroll(model);
    for (RecomputeSegment& segment : segments) segment.kept = kept_products(graph, segment);
  }
  for (RecomputeSegment& segment : segments) segment.rerun_all = choices.rerun_all;
  return segments;
}

void check_dropped(std::vector<std::string>& problems, const PlanChoices& choices,
                   const Model& model) {
  std::set<std::string> names(choices.recompute.dropped.begin(), choices.recompute.dropped.end());
  names.insert(choices.recompute.others.begin(), choices.recompute.others.end());
  for (const std::string& name : names) {
    const auto has_tensor = [&](const Block& block) {
      const auto own = std::span(block.tensors).subspan(block.inputs.size());
      return block.count > 1 && std::ranges::any_of(own, [&](const Tensor& tensor) {
               return is_named(tensor.name, name);
             });
    };
    if (std::ranges::any_of(model.blocks, has_tensor)) continue;
    problems.push_back(fmt::format("recompute={}: no layer has a tensor \"{}\"",
                                   to_text(choices.recompute), name));
  }
}

}  // namespace meshwright
