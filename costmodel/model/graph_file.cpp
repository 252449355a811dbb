#include "costmodel/model/graph_file.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

constexpr std::string_view kGraphFormat = "meshwright-graph";
constexpr std::int64_t kGraphVersion = 1;
// As many as a thousand layers of any family have.
constexpr std::size_t kMostOps = 50'000;

// Which attributes go with a kind: the empty value of the right type.
OpAttributes attributes_for(OpKind kind) {
  switch (kind) {
    case OpKind::LayerNorm:
    case OpKind::RmsNorm:
      return NormAttributes{};
    case OpKind::Rope:
      return RopeAttributes{};
    case OpKind::Attention:
      return AttentionAttributes{};
    case OpKind::Activation:
    case OpKind::GatedActivation:
      return FunctionAttributes{};
    case OpKind::Scale:
      return ScaleAttributes{};
    case OpKind::Dropout:
      return DropoutAttributes{};
    case OpKind::Split:
    case OpKind::Concat:
      return AxisAttributes{};
    case OpKind::Router:
      return RouterAttributes{};
    case OpKind::Generic:
      return GenericAttributes{};
    case OpKind::Embedding:
    case OpKind::RelativeBias:
    case OpKind::Matmul:
    case OpKind::ExpertMatmul:
    case OpKind::Add:
    case OpKind::SelectFirst:
    case OpKind::Dispatch:
    case OpKind::Combine:
    case OpKind::CrossEntropy:
      return {};
  }
  return {};
}

// A list of things that have names, and the ids behind them.
template <class IdType>
class Names {
 public:
  explicit Names(std::string what) : what_(std::move(what)) {}
  void add(const JsonInput& place, const std::string& name, IdType id) {
    if (!ids_.emplace(name, id).second) {
      place.fail(fmt::format("the {} \"{}\" is there already", what_, printable(name)));
    }
  }
  IdType find(const JsonInput& place) const {
    const auto found = ids_.find(place.as<std::string>());
    if (found == ids_.end()) place.fail_expected(fmt::format("the name of a {}", what_));
    return found->second;
  }
  std::vector<IdType> find_all(const JsonInput& list) const {
    std::vector<IdType> ids;
    for (const JsonInput& element : list.elements()) ids.push_back(find(element));
    return ids;
  }

 private:
  std::string what_;
  std::map<std::string, IdType> ids_;
};

class GraphReader {
 public:
  OpGraph read(const JsonInput& json) {
    if (!is_graph_file(json)) json.at("format").fail_expected(fmt::format("\"{}\"", kGraphFormat));
    json.required<std::string>("format");
    json.at("version").integer(kGraphVersion, kGraphVersion);
    graph_.name = json.required<std::string>("name");
    if (const auto longest = json.find("longest_sequence")) {
      graph_.longest_sequence = longest->integer(1, kLargestDim);
    }
    if (const auto notes = json.find("notes")) graph_.notes = notes->list<std::string>();
    for (const JsonInput& dim : json.at("dims").elements()) read_dim(dim);
    for (const JsonInput& input : json.at("inputs").elements()) {
      graph_.inputs.push_back(read_tensor(input));
    }
    for (const JsonInput& weight : json.at("weights").elements()) read_weight(weight);
    const auto ops = json.at("ops").elements();
    if (ops.size() > kMostOps) {
      json.at("ops").fail(fmt::format("{} ops, the most is {}", ops.size(), kMostOps));
    }
    for (const JsonInput& op : ops) read_op(op);
    json.reject_unknown_fields();
    check_graph(graph_, json.source());
    return with_gradients(std::move(graph_));
  }

 private:
  void read_dim(const JsonInput& json) {
    Dim dim{.name = json.required<std::string>("name")};
    const JsonInput value = json.at("size");
    if (value.is_string()) {
      const auto role = value.as<std::string>();
      if (role != "batch" && role != "sequence") {
        value.fail_expected("a size, \"batch\" or \"sequence\"");
      }
      dim.role = role == "batch" ? DimRole::Batch : DimRole::Sequence;
    } else {
      dim.size = value.integer(1, kLargestDim);
    }
    json.reject_unknown_fields();
    dims_.add(json, dim.name, DimId(graph_.dims.size()));
    graph_.dims.push_back(std::move(dim));
  }

  TensorId read_tensor(const JsonInput& json) {
    Tensor tensor{.name = json.required<std::string>("name"),
                  .dims = dims_.find_all(json.at("dims"))};
    if (const auto element = json.find("element")) {
      const auto text = element->as<std::string>();
      if (text != "real" && text != "index") element->fail_expected("\"real\" or \"index\"");
      if (text == "index") tensor.element = Element::Index;
    }
    json.reject_unknown_fields();
    const TensorId id(graph_.tensors.size());
    tensors_.add(json, tensor.name, id);
    graph_.tensors.push_back(std::move(tensor));
    return id;
  }

  void read_weight(const JsonInput& json) {
    GraphWeight weight{.name = json.required<std::string>("name"),
                       .dims = dims_.find_all(json.at("dims")),
                       .frozen = json.value_or<bool>("frozen", false)};
    for (const DimId dim : weight.dims) {
      if (graph_.dims[dim.index()].role != DimRole::Fixed) {
        json.at("dims").fail("a weight has neither batch nor sequence");
      }
    }
    json.reject_unknown_fields();
    weights_.add(json, weight.name, WeightId(graph_.weights.size()));
    graph_.weights.push_back(std::move(weight));
  }

  void read_op(const JsonInput& json) {
    GraphOp op;
    const JsonInput kind = json.at("kind");
    const auto parsed = parse_op_kind(kind.as<std::string>());
    if (!parsed) kind.fail_expected("a kind of op (data/README.md lists them)");
    op.kind = *parsed;
    op.name = json.required<std::string>("name");
    if (const auto inputs = json.find("inputs")) op.inputs = tensors_.find_all(*inputs);
    if (const auto weights = json.find("weights")) op.weights = weights_.find_all(*weights);
    for (const JsonInput& output : json.at("outputs").elements()) {
      op.outputs.push_back(read_tensor(output));
    }
    op.attributes = attributes_for(op.kind);
    if (op.kind == OpKind::CrossEntropy && json.has("factor")) op.attributes = ScaleAttributes{};
    std::visit([&](auto& attributes) { read_attributes(json, attributes); }, op.attributes);
    json.reject_unknown_fields();
    graph_.ops.push_back(std::move(op));
  }

  static double probability(const JsonInput& json) {
    const double p = json.as<double>();
    if (!(p >= 0 && p < 1)) json.fail_expected("a probability of at least 0 and below 1");
    return p;
  }

  void read_attributes(const JsonInput&, std::monostate&) {}
  void read_attributes(const JsonInput& json, NormAttributes& norm) {
    norm.epsilon = json.value_or("epsilon", norm.epsilon);
    norm.gain_plus_one = json.value_or("gain_plus_one", false);
  }
  void read_attributes(const JsonInput& json, RopeAttributes& rope) {
    rope.theta = json.value_or("theta", rope.theta);
    rope.rotated = json.at("rotated").integer(0, kLargestDim);
    if (const auto first = json.find("first")) rope.first = first->integer(0, kLargestDim);
    rope.neighbours = json.value_or("neighbours", false);
    rope.scaling = json.value_or<std::string>("scaling", "");
    rope.factor = json.value_or("factor", rope.factor);
    rope.low_factor = json.value_or("low_factor", rope.low_factor);
    rope.high_factor = json.value_or("high_factor", rope.high_factor);
    rope.original_positions = json.value_or("original_positions", rope.original_positions);
    rope.attention_factor = json.value_or("attention_factor", rope.attention_factor);
  }
  void read_attributes(const JsonInput& json, AttentionAttributes& attention) {
    attention.causal = json.required<bool>("causal");
    attention.alibi = json.value_or("alibi", false);
    if (const auto window = json.find("window")) {
      attention.window = window->integer(1, kLargestDim);
    }
    attention.scale = json.required<double>("scale");
    if (const auto dropout = json.find("dropout")) attention.dropout = probability(*dropout);
  }
  void read_attributes(const JsonInput& json, FunctionAttributes& function) {
    const JsonInput field = json.at("function");
    const auto parsed = parse_function(field.as<std::string>());
    if (!parsed) field.fail_expected("gelu, gelu_tanh, silu, relu, tanh or sigmoid");
    function.function = *parsed;
  }
  void read_attributes(const JsonInput& json, ScaleAttributes& scale) {
    scale.factor = json.required<double>("factor");
  }
  void read_attributes(const JsonInput& json, DropoutAttributes& dropout) {
    dropout.probability = probability(json.at("probability"));
  }
  void read_attributes(const JsonInput& json, AxisAttributes& axis) {
    axis.dim = dims_.find(json.at("axis"));
  }
  void read_attributes(const JsonInput& json, RouterAttributes& router) {
    router.sigmoid = json.value_or("sigmoid", false);
    router.renormalize = json.value_or("renormalize", false);
    if (const auto groups = json.find("groups")) router.groups = groups->integer(1, kLargestDim);
    if (const auto chosen = json.find("chosen_groups")) {
      router.chosen_groups = chosen->integer(1, router.groups);
    }
    router.factor = json.value_or("factor", 1.0);
    router.balance = json.value_or("balance", 0.0);
    router.bias_rate = json.value_or("bias_rate", 0.0);
  }
  void read_attributes(const JsonInput& json, GenericAttributes& generic) {
    generic.what = json.required<std::string>("what");
  }

  OpGraph graph_;
  Names<DimId> dims_{"dimension"};
  Names<TensorId> tensors_{"tensor"};
  Names<WeightId> weights_{"weight"};
};

using Json = nlohmann::ordered_json;

class GraphWriter {
 public:
  explicit GraphWriter(const OpGraph& graph) : graph_(graph) {}

  Json write() const {
    Json json = {{"format", kGraphFormat}, {"version", kGraphVersion}, {"name", graph_.name}};
    if (graph_.longest_sequence) json["longest_sequence"] = *graph_.longest_sequence;
    if (!graph_.notes.empty()) json["notes"] = graph_.notes;
    for (const Dim& dim : graph_.dims) {
      json["dims"].push_back({{"name", dim.name}, {"size", dim_value(dim)}});
    }
    json["inputs"] = Json::array();
    for (const TensorId input : graph_.inputs) json["inputs"].push_back(tensor_json(input));
    json["weights"] = Json::array();
    for (const GraphWeight& weight : graph_.weights) {
      Json entry = {{"name", weight.name}, {"dims", dim_names(weight.dims)}};
      if (weight.frozen) entry["frozen"] = true;
      json["weights"].push_back(std::move(entry));
    }
    for (const GraphOp& op : graph_.ops) json["ops"].push_back(op_json(op));
    return json;
  }

 private:
  static Json dim_value(const Dim& dim) {
    switch (dim.role) {
      case DimRole::Batch:
        return "batch";
      case DimRole::Sequence:
        return "sequence";
      case DimRole::Fixed:
        return dim.size;
    }
    return nullptr;
  }

  Json dim_names(const std::vector<DimId>& dims) const {
    Json names = Json::array();
    for (const DimId dim : dims) names.push_back(graph_.dims[dim.index()].name);
    return names;
  }

  Json tensor_json(TensorId id) const {
    const Tensor& tensor = graph_.tensors[id.index()];
    Json json = {{"name", tensor.name}, {"dims", dim_names(tensor.dims)}};
    if (tensor.element == Element::Index) json["element"] = "index";
    return json;
  }

  Json op_json(const GraphOp& op) const {
    Json json = {{"kind", to_text(op.kind)}, {"name", op.name}};
    for (const TensorId id : op.inputs) json["inputs"].push_back(graph_.tensors[id.index()].name);
    for (const WeightId id : op.weights) {
      json["weights"].push_back(graph_.weights[id.index()].name);
    }
    for (const TensorId id : op.outputs) json["outputs"].push_back(tensor_json(id));
    std::visit([&](const auto& attributes) { write_attributes(json, attributes); }, op.attributes);
    return json;
  }

  static void write_attributes(Json&, const std::monostate&) {}
  static void write_attributes(Json& json, const NormAttributes& norm) {
    json["epsilon"] = norm.epsilon;
    if (norm.gain_plus_one) json["gain_plus_one"] = true;
  }
  static void write_attributes(Json& json, const RopeAttributes& rope) {
    json["theta"] = rope.theta;
    json["rotated"] = rope.rotated;
    if (rope.first > 0) json["first"] = rope.first;
    if (rope.neighbours) json["neighbours"] = true;
    if (rope.attention_factor != 1) json["attention_factor"] = rope.attention_factor;
    if (rope.scaling.empty()) return;
    json["scaling"] = rope.scaling;
    json["factor"] = rope.factor;
    json["low_factor"] = rope.low_factor;
    json["high_factor"] = rope.high_factor;
    json["original_positions"] = rope.original_positions;
  }
  static void write_attributes(Json& json, const AttentionAttributes& attention) {
    json["causal"] = attention.causal;
    json["scale"] = attention.scale;
    if (attention.alibi) json["alibi"] = true;
    if (attention.window) json["window"] = *attention.window;
    if (attention.dropout > 0) json["dropout"] = attention.dropout;
  }
  static void write_attributes(Json& json, const FunctionAttributes& function) {
    json["function"] = to_text(function.function);
  }
  static void write_attributes(Json& json, const ScaleAttributes& scale) {
    json["factor"] = scale.factor;
  }
  static void write_attributes(Json& json, const DropoutAttributes& dropout) {
    json["probability"] = dropout.probability;
  }
  void write_attributes(Json& json, const AxisAttributes& axis) const {
    json["axis"] = graph_.dims[axis.dim.index()].name;
  }
  static void write_attributes(Json& json, const RouterAttributes& router) {
    json["sigmoid"] = router.sigmoid;
    json["renormalize"] = router.renormalize;
    json["groups"] = router.groups;
    json["chosen_groups"] = router.chosen_groups;
    json["factor"] = router.factor;
    if (router.balance != 0) json["balance"] = router.balance;
    if (router.bias_rate != 0) json["bias_rate"] = router.bias_rate;
  }
  static void write_attributes(Json& json, const GenericAttributes& generic) {
    json["what"] = generic.what;
  }

  const OpGraph& graph_;
};

}  // namespace

bool is_graph_file(const JsonInput& json) {
  return json.is_object() && json.has("format") && json.at("format").is_string() &&
         json.required<std::string>("format") == kGraphFormat;
}

OpGraph read_graph(const JsonInput& json) { return GraphReader().read(json); }

std::string graph_text(const OpGraph& graph) {
  // A model may be called after its file, whose name need not be UTF-8.
  const auto dump = [](const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  // One op a line: such files are long, and people look for one op at a time.
  const Json json = GraphWriter(graph).write();
  std::string text = "{\n";
  bool first = true;
  for (const auto& [key, value] : json.items()) {
    if (!first) text += ",\n";
    first = false;
    text += fmt::format("  {}: ", dump(Json(key)));
    if (!value.is_array()) {
      text += dump(value);
      continue;
    }
    text += "[";
    for (std::size_t i = 0; i < value.size(); ++i) {
      text += fmt::format("{}\n    {}", i == 0 ? "" : ",", dump(value[i]));
    }
    text += "\n  ]";
  }
  return text + "\n}\n";
}

}  // namespace meshwright
