#include "tests/laws/graph_changes.h"

#include <fmt/format.h>

#include <functional>
#include <random>
#include <vector>

#include "costmodel/model/graph_file.h"
#include "tests/simulator/small_models.h"

namespace meshwright {
namespace {

using nlohmann::json;

class Changer {
 public:
  explicit Changer(std::uint32_t seed) : generator_(seed) {
    SmallModel model = random_small_model(generator_);
    model.layers = between(1, 2);
    const auto config = JsonInput::parse(config_of(model), model.family);
    graph_ = json::parse(graph_text(read_hugging_face(config, "small")));
    changes_ = model.family;
  }

  ChangedGraph change() {
    for (std::size_t i = between(1, 3); i > 0; --i) change_once();
    return {graph_, changes_};
  }

 private:
  std::size_t between(std::size_t low, std::size_t high) {
    return low + generator_() % (high - low + 1);
  }
  // Of a list that is not empty.
  json& any_of(json& list) { return list[between(0, list.size() - 1)]; }
  json& any_op() { return any_of(graph_["ops"]); }
  // The declaration of any tensor.
  json& any_tensor() {
    const std::size_t inputs = graph_["inputs"].size();
    const std::size_t choice = between(0, inputs + graph_["ops"].size() - 1);
    return choice < inputs ? graph_["inputs"][choice]
                           : any_of(graph_["ops"][choice - inputs]["outputs"]);
  }
  json tensor_named(const json& name) {
    for (json& op : graph_["ops"]) {
      for (json& output : op["outputs"]) {
        if (output["name"] == name) return output;
      }
    }
    return {{"name", name}, {"dims", json::array()}};
  }
  void say(const std::string& what) { changes_ += "; " + what; }
  void say(const std::string& what, const json& named) {
    say(fmt::format("{} {}", what, named["name"].get<std::string>()));
  }

  // Some changes can leave too little to change.
  bool can_change() {
    return graph_["ops"].size() > 1 && !graph_["weights"].empty() && !graph_["inputs"].empty();
  }

  void change_once() {
    if (!can_change()) return;
    using Change = void (Changer::*)();
    static constexpr Change kChanges[] = {&Changer::swap_dims,
                                          &Changer::swap_dims_everywhere,
                                          &Changer::drop_dim_everywhere,
                                          &Changer::swap_weight_dims,
                                          &Changer::change_dim_of_tensor,
                                          &Changer::drop_input,
                                          &Changer::swap_inputs,
                                          &Changer::read_another,
                                          &Changer::read_another,
                                          &Changer::use_another_weight,
                                          &Changer::drop_weight,
                                          &Changer::remove_op,
                                          &Changer::bypass_op,
                                          &Changer::bypass_op,
                                          &Changer::leave_a_copy,
                                          &Changer::copy_op_and_add,
                                          &Changer::swap_ops,
                                          &Changer::resize_dim,
                                          &Changer::resize_dim,
                                          &Changer::change_role,
                                          &Changer::flip_element,
                                          &Changer::change_kind,
                                          &Changer::change_number,
                                          &Changer::freeze,
                                          &Changer::rename,
                                          &Changer::insert_op,
                                          &Changer::insert_op};
    (this->*kChanges[between(0, std::size(kChanges) - 1)])();
  }

  void swap_any_two(json& list) {
    if (list.size() < 2) return;
    const std::size_t a = between(0, list.size() - 1), b = between(0, list.size() - 1);
    std::swap(list[a], list[b]);
  }

  void swap_dims() {
    json& tensor = any_tensor();
    say("swap dims of", tensor);
    swap_any_two(tensor["dims"]);
  }

  // In every tensor and, half of the time, in every weight: the result may be a graph again.
  void swap_dims_everywhere() {
    const json a = any_of(graph_["dims"])["name"], b = any_of(graph_["dims"])["name"];
    say(fmt::format("swap {} and {} everywhere", a.dump(), b.dump()));
    const auto swap = [&](json& dims) {
      for (json& dim : dims) dim = dim == a ? b : dim == b ? a : dim;
    };
    for (json& input : graph_["inputs"]) swap(input["dims"]);
    for (json& op : graph_["ops"]) {
      for (json& output : op["outputs"]) swap(output["dims"]);
    }
    if (between(0, 1) == 0) return;
    for (json& weight : graph_["weights"]) swap(weight["dims"]);
  }

  void drop_dim_everywhere() {
    const json dim = any_of(graph_["dims"])["name"];
    say(fmt::format("drop {} everywhere", dim.dump()));
    const auto drop = [&](json& dims) {
      json kept = json::array();
      for (const json& other : dims) {
        if (other != dim) kept.push_back(other);
      }
      dims = kept;
    };
    for (json& input : graph_["inputs"]) drop(input["dims"]);
    for (json& weight : graph_["weights"]) drop(weight["dims"]);
    for (json& op : graph_["ops"]) {
      for (json& output : op["outputs"]) drop(output["dims"]);
    }
  }

  void swap_weight_dims() {
    json& weight = any_of(graph_["weights"]);
    say("swap dims of weight", weight);
    swap_any_two(weight["dims"]);
  }

  void change_dim_of_tensor() {
    json& tensor = any_tensor();
    json& dims = tensor["dims"];
    say("change a dim of", tensor);
    const json other = any_of(graph_["dims"])["name"];
    const std::size_t way = between(0, 2);
    if (way == 0 || dims.empty()) {
      dims.push_back(other);
    } else if (way == 1) {
      dims.erase(between(0, dims.size() - 1));
    } else {
      any_of(dims) = other;
    }
  }

  void drop_input() {
    json& op = any_op();
    if (op["inputs"].empty()) return;
    say("drop an input of", op);
    op["inputs"].erase(between(0, op["inputs"].size() - 1));
  }

  void swap_inputs() {
    json& op = any_op();
    if (!op.contains("inputs")) return;
    say("swap inputs of", op);
    swap_any_two(op["inputs"]);
  }

  // A tensor of the same dimensions, three times of four: another layer's keys, the same twice.
  void read_another() {
    json& op = any_op();
    if (!op.contains("inputs") || op["inputs"].empty()) return;
    json& input = any_of(op["inputs"]);
    const json dims = tensor_named(input)["dims"];
    for (int tries = 0; tries < 50; ++tries) {
      const json other = any_tensor();
      if (other["dims"] != dims && between(0, 3) > 0) continue;
      say(fmt::format("{} reads {} for {}", op["name"].dump(), other["name"].dump(), input.dump()));
      input = other["name"];
      return;
    }
  }

  void use_another_weight() {
    json& op = any_op();
    if (!op.contains("weights") || op["weights"].empty()) return;
    say("use another weight in", op);
    any_of(op["weights"]) = any_of(graph_["weights"])["name"];
  }

  void drop_weight() {
    json& op = any_op();
    if (!op.contains("weights") || op["weights"].empty()) return;
    say("drop a weight of", op);
    op["weights"].erase(op["weights"].size() - 1);
    drop_unused_weights();
  }

  void drop_unused_weights() {
    json kept = json::array();
    for (const json& weight : graph_["weights"]) {
      bool used = false;
      for (const json& op : graph_["ops"]) {
        for (const json& name : op.value("weights", json::array())) used |= name == weight["name"];
      }
      if (used || between(0, 3) == 0) kept.push_back(weight);
    }
    graph_["weights"] = kept;
  }

  void remove_op() {
    const std::size_t i = between(0, graph_["ops"].size() - 1);
    say("remove", graph_["ops"][i]);
    graph_["ops"].erase(i);
    drop_unused_weights();
  }

  // Its readers read what it read.
  void bypass_op() {
    const std::size_t i = between(0, graph_["ops"].size() - 1);
    const json op = graph_["ops"][i];
    if (!op.contains("inputs") || op["inputs"].empty()) return;
    say("bypass", op);
    graph_["ops"].erase(i);
    for (json& other : graph_["ops"]) {
      if (!other.contains("inputs")) continue;
      for (json& input : other["inputs"]) {
        for (const json& output : op["outputs"]) {
          if (input == output["name"]) input = op["inputs"][0];
        }
      }
    }
    drop_unused_weights();
  }

  void leave_a_copy() { copy_op(); }

  // A second one of an op, which nobody reads. Returns its first result.
  json copy_op() {
    const std::size_t i = between(0, graph_["ops"].size() - 1);
    json copy = graph_["ops"][i];
    say("copy", copy);
    copy["name"] = fmt::format("copy{}", ++made_);
    for (json& output : copy["outputs"]) output["name"] = fmt::format("copied{}", ++made_);
    const json result = copy["outputs"][0];
    insert(i + 1, std::move(copy));
    return result;
  }

  void insert(std::size_t place, json op) {
    auto& ops = graph_["ops"];
    ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(place), std::move(op));
  }

  // A second one whose result is added to a tensor before somebody reads that.
  void copy_op_and_add() {
    const json result = copy_op();
    for (std::size_t i = 0; i < graph_["ops"].size(); ++i) {
      json& op = graph_["ops"][i];
      if (!op.contains("inputs") || op["name"] == fmt::format("copy{}", made_ - 1)) continue;
      for (json& input : op["inputs"]) {
        const json read = tensor_named(input);
        if (read["dims"] != result["dims"] || between(0, 2) > 0) continue;
        const std::string name = fmt::format("added{}", ++made_);
        const json add = {{"kind", "add"},
                          {"name", name},
                          {"inputs", {input, result["name"]}},
                          {"outputs", {{{"name", name}, {"dims", result["dims"]}}}}};
        input = name;
        return insert(i, add);
      }
    }
  }

  void swap_ops() {
    json& ops = graph_["ops"];
    if (ops.size() < 2) return;
    const std::size_t i = between(0, ops.size() - 2);
    say("swap with the next", ops[i]);
    std::swap(ops[i], ops[i + 1]);
  }

  void resize_dim() {
    json& dim = any_of(graph_["dims"]);
    say("resize", dim);
    static constexpr int kSizes[] = {1, 2, 3, 5, 8, 16};
    if (!dim["size"].is_string()) dim["size"] = kSizes[between(0, std::size(kSizes) - 1)];
  }

  void change_role() {
    json& dim = any_of(graph_["dims"]);
    say("change the role of", dim);
    static const json kRoles[] = {"batch", "sequence", 4, 1};
    dim["size"] = kRoles[between(0, std::size(kRoles) - 1)];
  }

  void flip_element() {
    json& tensor = any_tensor();
    say("flip the element of", tensor);
    tensor["element"] = tensor.value("element", "real") == "real" ? "index" : "real";
  }

  void change_kind() {
    static const json kKinds[] = {
        {{"kind", "matmul"}},
        {{"kind", "add"}},
        {{"kind", "activation"}, {"function", "relu"}},
        {{"kind", "gated_activation"}, {"function", "gelu"}},
        {{"kind", "scale"}, {"factor", -2}},
        {{"kind", "dropout"}, {"probability", 0.2}},
        {{"kind", "rope"}, {"rotated", 2}},
        {{"kind", "layer_norm"}},
        {{"kind", "rms_norm"}},
        {{"kind", "attention"}, {"causal", false}, {"scale", 0.5}},
        {{"kind", "select_first"}},
        {{"kind", "router"}},
        {{"kind", "cross_entropy"}},
        {{"kind", "generic"}, {"what", "x"}},
    };
    json& op = any_op();
    say("change the kind of", op);
    json changed = kKinds[between(0, std::size(kKinds) - 1)];
    for (const char* field : {"name", "inputs", "weights", "outputs"}) {
      if (op.contains(field)) changed[field] = op[field];
    }
    op = changed;
  }

  void change_number() {
    static const json kNumbers[] = {-1, 0, 1, 2, 3, 1e-300, 1e300, 0.5, 7, true};
    for (int tries = 0; tries < 50; ++tries) {
      json& op = any_op();
      json& field = any_of_fields(op);
      if (!field.is_number()) continue;
      say("change a number of", op);
      field = kNumbers[between(0, std::size(kNumbers) - 1)];
      return;
    }
  }

  json& any_of_fields(json& object) {
    auto field = object.begin();
    std::advance(field, between(0, object.size() - 1));
    return *field;
  }

  void freeze() {
    const bool all = between(0, 3) == 0;
    say(all ? "freeze all" : "freeze a weight");
    for (json& weight : graph_["weights"]) {
      if (all || between(0, 3) == 0) weight["frozen"] = true;
    }
  }

  void rename() {
    static constexpr const char* kNames[] = {
        "", "*", "layers.0.ffn.norm", "loss", "layers.1", "tokens", "a\nb", "labels"};
    json& list =
        graph_[std::vector<const char*>{"dims", "weights", "ops", "inputs"}[between(0, 3)]];
    json& named = any_of(list);
    say("rename", named);
    const json before = named["name"];
    named["name"] = kNames[between(0, std::size(kNames) - 1)];
    const json after = named["name"];
    // Where it is named as well, so that only the name is another.
    for (json& op : graph_["ops"]) {
      for (const char* field : {"inputs", "weights"}) {
        if (!op.contains(field)) continue;
        for (json& name : op[field]) name = name == before ? after : name;
      }
    }
  }

  // An op of one input between a tensor and one of its readers or all.
  void insert_op() {
    const std::size_t i = between(0, graph_["ops"].size() - 2);
    const json read = graph_["ops"][i]["outputs"][0];
    static const json kOps[] = {{{"kind", "activation"}, {"function", "gelu"}},
                                {{"kind", "scale"}, {"factor", 0.5}},
                                {{"kind", "dropout"}, {"probability", 0.2}},
                                {{"kind", "add"}},
                                {{"kind", "gated_activation"}, {"function", "silu"}}};
    json op = kOps[between(0, std::size(kOps) - 1)];
    say(fmt::format("insert {} after", op["kind"].dump()), read);
    const std::string name = fmt::format("inserted{}", ++made_);
    op["name"] = name;
    op["inputs"] = {read["name"]};
    if (op["kind"] == "add" || op["kind"] == "gated_activation") {
      op["inputs"].push_back(read["name"]);
    }
    op["outputs"] = {{{"name", name}, {"dims", read["dims"]}}};
    const bool all = between(0, 1) == 0;
    insert(i + 1, op);
    for (std::size_t reader = i + 2; reader < graph_["ops"].size(); ++reader) {
      json& entry = graph_["ops"][reader];
      if (!entry.contains("inputs")) continue;
      for (json& input : entry["inputs"]) {
        if (input != read["name"]) continue;
        input = name;
        if (!all) return;
      }
    }
  }

  std::mt19937 generator_;
  json graph_;
  std::string changes_;
  int made_ = 0;
};

}  // namespace

ChangedGraph changed_graph(std::uint32_t seed) { return Changer(seed).change(); }

}  // namespace meshwright
