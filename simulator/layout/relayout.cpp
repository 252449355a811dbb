#include "simulator/layout/relayout.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <cassert>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace meshwright {
namespace {

// Compared by time, then by steps: slices take no time, so without the second a path could wander.
struct PathCost {
  Seconds time;
  int steps = 0;
  friend auto operator<=>(const PathCost&, const PathCost&) = default;
};

PathCost operator+(const PathCost& a, const PathCost& b) {
  return {a.time + b.time, a.steps + b.steps};
}

struct Edge {
  RelayoutStep step;
  PathCost cost;
};

using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Layout, Edge>;
using Vertex = Graph::vertex_descriptor;
using EdgeOfGraph = Graph::edge_descriptor;

// Prices of steps. Many steps of a graph are the same transfers over the same axes.
class StepTimes {
 public:
  StepTimes(const Mesh& mesh, const MovedTensor& tensor, const CostModel& costs)
      : mesh_(mesh), tensor_(tensor), costs_(costs) {}

  Seconds time(const RelayoutStep& step, const Layout& before) {
    Seconds total;
    for (const Transfer& transfer :
         transfers_of(step, before, mesh_, tensor_, mesh_.devices().front())) {
      total += time(transfer, step.axes);
    }
    return total;
  }

 private:
  Seconds time(const Transfer& transfer, const std::vector<AxisId>& axes) {
    const auto [found, first] = known_.try_emplace(
        std::tuple(transfer.kind, transfer.reduction, element_count(transfer), axes), Seconds());
    if (first) found->second = slowest(transfer, axes);
    return found->second;
  }

  Seconds slowest(Transfer transfer, const std::vector<AxisId>& axes) const {
    Seconds longest;
    for (std::vector<DeviceId>& group : mesh_.groups(axes)) {
      transfer.group = std::move(group);
      longest = std::max(longest, costs_.transfer(transfer, tensor_.precision).time);
    }
    return longest;
  }

  const Mesh& mesh_;
  const MovedTensor& tensor_;
  const CostModel& costs_;
  std::map<std::tuple<TransferKind, Reduction, std::int64_t, std::vector<AxisId>>, Seconds> known_;
};

// All layouts that can be reached from `from`, which is vertex 0, and the steps between them.
struct LayoutGraph {
  Graph graph;
  std::map<Layout, Vertex> vertices;
};

LayoutGraph graph_from(const Layout& from, const StepChoices& choices, StepTimes& times) {
  LayoutGraph layouts;
  const auto vertex_of = [&](const Layout& layout) {
    const auto [found, first] = layouts.vertices.try_emplace(layout, Vertex());
    if (first) found->second = boost::add_vertex(layout, layouts.graph);
    return found->second;
  };
  vertex_of(from);
  for (Vertex v = 0; v < boost::num_vertices(layouts.graph); ++v) {
    const Layout before = layouts.graph[v];
    for (RelayoutStep& step : steps_from(before, choices)) {
      const PathCost cost{times.time(step, before), 1};
      const Vertex after = vertex_of(*layout_after(step, before));
      boost::add_edge(v, after, Edge{std::move(step), cost}, layouts.graph);
    }
  }
  return layouts;
}

// For each vertex the last edge of the cheapest path from vertex 0.
std::map<Vertex, EdgeOfGraph> cheapest_edges(const Graph& graph) {
  std::map<Vertex, EdgeOfGraph> last_edges;
  std::vector<PathCost> costs(boost::num_vertices(graph));
  const PathCost endless{Seconds(std::numeric_limits<double>::infinity())};
  boost::dijkstra_shortest_paths(
      graph, Vertex(0),
      boost::weight_map(boost::get(&Edge::cost, graph))
          .distance_map(boost::make_iterator_property_map(costs.begin(),
                                                          boost::get(boost::vertex_index, graph)))
          .distance_compare(std::less<PathCost>())
          .distance_combine(std::plus<PathCost>())
          .distance_inf(endless)
          .distance_zero(PathCost())
          .visitor(boost::make_dijkstra_visitor(boost::record_edge_predecessors(
              boost::make_assoc_property_map(last_edges), boost::on_edge_relaxed()))));
  return last_edges;
}

RelayoutPath path_to(Vertex target, const Graph& graph) {
  const std::map<Vertex, EdgeOfGraph> last_edges = cheapest_edges(graph);
  RelayoutPath path;
  std::vector<Seconds> times;
  for (Vertex v = target; v != 0;) {
    const EdgeOfGraph edge = last_edges.at(v);
    path.steps.push_back(graph[edge].step);
    times.push_back(graph[edge].cost.time);
    v = boost::source(edge, graph);
  }
  std::ranges::reverse(path.steps);
  std::ranges::reverse(times);
  for (const Seconds time : times) path.time += time;
  return path;
}

}  // namespace

Seconds time_of(const RelayoutStep& step, const Layout& before, const Mesh& mesh,
                const MovedTensor& tensor, const CostModel& costs) {
  return StepTimes(mesh, tensor, costs).time(step, before);
}

StepChoices choices_between(const Layout& from, const Layout& to, const Mesh& mesh) {
  StepChoices choices{.axes = {}, .orders = {ShardOrder::Contiguous}};
  bool zigzag = false;
  for (const Layout& layout : {without_trivial_axes(from, mesh), without_trivial_axes(to, mesh)}) {
    const std::vector<AxisId> axes = axes_of(layout);
    choices.axes.insert(choices.axes.end(), axes.begin(), axes.end());
    zigzag = zigzag || std::ranges::any_of(layout.dims, [](const DimLayout& dim) {
               return dim.sharding.order == ShardOrder::Zigzag;
             });
  }
  std::ranges::sort(choices.axes);
  choices.axes.erase(std::unique(choices.axes.begin(), choices.axes.end()), choices.axes.end());
  if (zigzag) choices.orders.push_back(ShardOrder::Zigzag);
  return choices;
}

std::optional<RelayoutPath> cheapest_relayout(const Mesh& mesh, const MovedTensor& tensor,
                                              const Layout& from, const Layout& to,
                                              const CostModel& costs,
                                              const std::vector<DimId>& uncut) {
  assert(!fault_of(from, mesh) && !fault_of(to, mesh));
  assert(from.dims.size() == tensor.sizes.size() && to.dims.size() == tensor.sizes.size());
  StepTimes times(mesh, tensor, costs);
  StepChoices choices = choices_between(from, to, mesh);
  choices.uncut = uncut;
  const LayoutGraph layouts = graph_from(without_trivial_axes(from, mesh), choices, times);
  const auto target = layouts.vertices.find(without_trivial_axes(to, mesh));
  if (target == layouts.vertices.end()) return std::nullopt;
  return path_to(target->second, layouts.graph);
}

}  // namespace meshwright
