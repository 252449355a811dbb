#include <algorithm>
#include <set>

#include "tests/standin/machine.h"

// Captured streams, and graphs that run what was given to them.
namespace meshwright::standin {
namespace {

// Whether all nodes come before, or are, one of these.
bool reach_all(const std::vector<Capture::Node>& nodes, const std::vector<std::size_t>& last) {
  std::set<std::size_t> reached(last.begin(), last.end());
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (!reached.contains(i)) return false;
    reached.insert(nodes[i].after.begin(), nodes[i].after.end());
  }
  return true;
}

Operation wait_operation(const std::shared_ptr<Event>& event) {
  return {.name = "an edge of a graph",
          .start = {},
          .over = [event] { return event->reached > 0; },
          .awaited = event};
}

}  // namespace

void Machine::add_node(Stream& stream, std::function<Operation()> make) {
  auto& nodes = stream.capture->nodes;
  nodes.push_back({std::move(make), stream.last, &stream});
  stream.last = {nodes.size() - 1};
  moved();
}

std::optional<std::vector<Capture::Node>> Machine::end_capture(Stream& origin) {
  const std::shared_ptr<Capture> ended = origin.capture;
  const bool joined = reach_all(ended->nodes, origin.last);
  for (const auto& stream : streams_) {
    if (stream->capture != ended) continue;
    stream->capture.reset();
    stream->last.clear();
  }
  if (!joined) return {};
  return std::move(ended->nodes);
}

std::shared_ptr<Graph> Machine::make_graph(std::vector<Capture::Node> nodes, int device) {
  auto graph = std::make_shared<Graph>();
  graph->nodes = std::move(nodes);
  for (const auto& node : graph->nodes) {
    auto& own = graph->streams[node.stream];
    if (!own) own = add_stream(device);
  }
  return graph;
}

// The graph's streams get all nodes when its turn comes. Nodes of other streams are waited for.
void Machine::put_graph(Stream& stream, const std::shared_ptr<Graph>& graph) {
  const auto start = [this, graph] {
    std::vector<std::shared_ptr<Event>> done;
    for (const auto& node : graph->nodes) {
      Stream& own = *graph->streams.at(node.stream);
      for (const std::size_t before : node.after) {
        if (graph->nodes[before].stream != node.stream) put(own, wait_operation(done[before]));
      }
      put(own, node.make());
      done.push_back(std::make_shared<Event>());
      done.back()->stream = &own;
      put(own, {.name = "a node's end", .start = [event = done.back()] { event->reached = 1; }});
    }
  };
  const auto over = [graph] {
    return std::all_of(graph->streams.begin(), graph->streams.end(),
                       [](const auto& own) { return own.second->queue.empty(); });
  };
  put(stream, {.name = "cudaGraphLaunch", .start = start, .over = over});
}

// One that runs goes on to its end.
void Machine::remove_graph(const Graph& graph) {
  for (const auto& [captured, own] : graph.streams) {
    if (own->queue.empty()) std::erase(streams_, own);
  }
}

}  // namespace meshwright::standin
