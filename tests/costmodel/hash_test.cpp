#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <set>

#include "costmodel/base/json_input.h"
#include "costmodel/cluster/cluster_hash.h"
#include "costmodel/cluster/cluster_name.h"
#include "costmodel/model/graph_file.h"
#include "costmodel/model/model.h"
#include "costmodel/model/model_hash.h"
#include "costmodel/model/model_name.h"

namespace meshwright {
namespace {

// Each change alone, to a value of its own.
template <class T>
void check_changes(const T& original, const std::vector<std::function<void(T&)>>& changes) {
  std::set<std::string> hashes = {hash_of(original)};
  for (const auto& change : changes) {
    T changed = original;
    change(changed);
    REQUIRE_FALSE(changed == original);
    hashes.insert(hash_of(changed));
  }
  CHECK(hashes.size() == changes.size() + 1);
}

template <class Attributes>
Attributes& attributes_of(Model& model) {
  for (Block& block : model.blocks) {
    for (Op& op : block.ops) {
      if (auto* found = std::get_if<Attributes>(&op.attributes)) return *found;
    }
  }
  throw std::logic_error("no op has such attributes");
}

}  // namespace

TEST_CASE("whatever a cluster is made of changes its hash, and words about it do not") {
  const Cluster cluster = find_cluster("h100:4x8", MESHWRIGHT_DATA);
  check_changes<Cluster>(
      cluster, {[](Cluster& c) { c.node_types[0].name += "x"; },
                [](Cluster& c) { c.node_types[0].devices = 9; },
                [](Cluster& c) { c.node_types[0].device.name += "x"; },
                [](Cluster& c) { c.node_types[0].device.memory.value += 1_B; },
                [](Cluster& c) {
                  c.node_types[0].device.memory_bandwidth.value +=
                      c.node_types[0].device.memory_bandwidth.value;
                },
                [](Cluster& c) {
                  c.node_types[0].device.peak.begin()->second.value +=
                      c.node_types[0].device.peak.begin()->second.value;
                },
                [](Cluster& c) { c.node_types[0].device.peak.clear(); },
                [](Cluster& c) { c.node_types[0].device.multiprocessors->value += 1; },
                [](Cluster& c) { c.node_types[0].device.l2->value += 1_B; },
                [](Cluster& c) {
                  c.node_types[0].device.matmul_share = {0.51, Origin::Assumed, ""};
                },
                [](Cluster& c) {
                  c.node_types[0].device.price = {DollarsPerHour(987), Origin::Assumed, ""};
                },
                [](Cluster& c) { c.node_types[0].host->memory.value += 1_B; },
                [](Cluster& c) {
                  c.node_types[0].host->bandwidth.value += c.node_types[0].host->bandwidth.value;
                },
                [](Cluster& c) { c.node_types[0].host->devices_per_link.value += 1; },
                [](Cluster& c) { c.node_types[0].host.reset(); },
                [](Cluster& c) {
                  c.node_types[0].levels[0].latency.value +=
                      c.node_types[0].levels[0].latency.value;
                },
                [](Cluster& c) { c.node_types[0].levels[0].oversubscription.value *= 2; },
                [](Cluster& c) {
                  c.node_types[0].network_bandwidth["x"] = {1.0_GBps, Origin::Assumed, ""};
                },
                [](Cluster& c) { c.nodes[0].count += 1; },
                [](Cluster& c) { c.network[0].name += "x"; },
                [](Cluster& c) { c.network[0].span = 2; },
                [](Cluster& c) { c.network[0].bandwidth.value += c.network[0].bandwidth.value; },
                [](Cluster& c) { c.network[0].rails = !c.network[0].rails; },
                [](Cluster& c) {
                  c.exceptions = {{DeviceId(1), 0.5}};
                },
                [](Cluster& c) {
                  c.exceptions = {{DeviceId(1), 1, {{"x", 1.0_GBps}}}};
                }});
  Cluster renamed = cluster;
  renamed.name = "ours";
  renamed.description = "in the cellar";
  renamed.node_types[0].device.memory.source = "somebody";
  CHECK(hash_of(renamed) == hash_of(cluster));
}

TEST_CASE("whatever a model is made of changes its hash, and notes on it do not") {
  const Model model = make_model(read_model("llama3-8b", MESHWRIGHT_DATA));
  const auto layers = static_cast<std::size_t>(
      std::ranges::max_element(model.blocks, {}, &Block::count) - model.blocks.begin());
  check_changes<Model>(
      model, {[](Model& m) { m.name += "x"; },
              [](Model& m) { m.longest_sequence = 77; },
              [](Model& m) { m.dims[0].name += "x"; },
              [](Model& m) { m.dims[1].size += 1; },
              [](Model& m) { m.inputs[0].name += "x"; },
              [](Model& m) {
                m.shared_weights.push_back({{"w"}, {}, false});
              },
              [=](Model& m) { m.blocks[layers].name += "x"; },
              [=](Model& m) { m.blocks[layers].count += 1; },
              [=](Model& m) { m.blocks[layers].tensors.back().name += "x"; },
              [=](Model& m) { m.blocks[layers].tensors.back().dims.pop_back(); },
              [=](Model& m) { m.blocks[layers].tensors.back().needs_gradient ^= true; },
              [=](Model& m) { m.blocks[layers].inputs.back().carried.reset(); },
              [=](Model& m) { m.blocks[layers].weights[0].names[1] += "x"; },
              [=](Model& m) { m.blocks[layers].weights[0].frozen = true; },
              [=](Model& m) { m.blocks[layers].ops[0].kind = OpKind::Generic; },
              [=](Model& m) { m.blocks[layers].ops[1].names[1] += "x"; },
              [=](Model& m) { m.blocks[layers].ops[1].outputs.clear(); },
              [=](Model& m) { m.blocks[layers].ops[0].weights[0].shared = true; },
              [](Model& m) { attributes_of<NormAttributes>(m).epsilon *= 2; },
              [](Model& m) { attributes_of<RopeAttributes>(m).theta *= 2; },
              [](Model& m) { attributes_of<RopeAttributes>(m).original_positions += 1; },
              [](Model& m) { attributes_of<RopeAttributes>(m).neighbours ^= true; },
              [](Model& m) { attributes_of<RopeAttributes>(m).attention_factor *= 2; },
              [](Model& m) { attributes_of<AttentionAttributes>(m).dropout = 0.5; },
              [](Model& m) { attributes_of<FunctionAttributes>(m).function = Function::Tanh; }});
  Model noted = model;
  noted.notes.push_back("without its embedding");
  CHECK(hash_of(noted) == hash_of(model));
}

TEST_CASE("a model has its hash, also one whose graph was saved") {
  const OpGraph graph = read_model("gpt2-tiny", MESHWRIGHT_DATA);
  const Model model = make_model(graph);
  CHECK(model.hash == hash_of(model));
  CHECK(model.hash.size() == 16);
  CHECK(make_model(read_graph(JsonInput::parse(graph_text(graph), "saved"))).hash == model.hash);
}

}  // namespace meshwright
