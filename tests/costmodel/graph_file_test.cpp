#include "costmodel/model/graph_file.h"

#include <catch2/catch.hpp>
#include <map>

#include "costmodel/base/input_error.h"
#include "costmodel/base/presets.h"
#include "costmodel/model/model.h"
#include "costmodel/model/model_name.h"
#include "tests/bad_files.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

constexpr std::string_view kSmall = R"({
  "format": "meshwright-graph", "version": 1, "name": "small",
  "dims": [{"name": "batch", "size": "batch"}, {"name": "in", "size": 4},
           {"name": "out", "size": 8}],
  "inputs": [{"name": "x", "dims": ["batch", "in"]}],
  "weights": [{"name": "w", "dims": ["out", "in"]}],
  "ops": [{"kind": "matmul", "name": "fc", "inputs": ["x"], "weights": ["w"],
           "outputs": [{"name": "y", "dims": ["batch", "out"]}]}]
})";

// The small graph with something changed.
std::string changed(const std::string& from, const std::string& to) {
  return replaced(std::string(kSmall), from, to);
}

void check_graph_refused(const std::string& text, const std::string& message) {
  CAPTURE(message);
  CHECK_THROWS_WITH(read_graph(JsonInput::parse(text, "g.json")), message);
}

}  // namespace

TEST_CASE("a graph file is read") {
  const OpGraph graph = read_graph(JsonInput::parse(kSmall, "g.json"));
  CHECK(graph.ops.size() == 1);
  CHECK(count_parameters(make_model(graph)).total == 32);
  CHECK(graph.tensors[1].needs_gradient);
  CHECK(!graph.tensors[0].needs_gradient);
}

TEST_CASE("the graph file's description has an example that is read") {
  const std::string text =
      read_text_file(std::filesystem::path(MESHWRIGHT_DATA) / "README.md", 1_MiB);
  const auto begin = text.find("```json\n", text.find("## Graph files")) + 8;
  const OpGraph graph = read_graph(
      JsonInput::parse(text.substr(begin, text.find("```", begin) - begin), "README.md"));
  const ParameterCount count = count_parameters(make_model(graph));
  CHECK(count.total == 1000 * 64 + 256 * 64 + 256 + 64 * 256);
  CHECK(count.trainable == count.total - 64 * 256);
  for (std::size_t kind = 0; kind <= static_cast<std::size_t>(OpKind::Generic); ++kind) {
    const auto row = "\n| `" + std::string(to_text(static_cast<OpKind>(kind))) + "` |";
    CHECK_THAT(text, Catch::Contains(row));
  }
}

TEST_CASE("every preset survives the graph file") {
  const auto names = preset_names(MESHWRIGHT_DATA "/models");
  for (std::size_t i = 0; i < names.size(); i += static_cast<std::size_t>(one_in(5))) {
    CAPTURE(names[i]);
    const OpGraph graph = read_model(names[i], MESHWRIGHT_DATA);
    const std::string text = graph_text(graph);
    const OpGraph read = read_graph(JsonInput::parse(text, names[i]));
    CHECK(make_model(read) == make_model(graph));
    CHECK(graph_text(read) == text);
  }
}

TEST_CASE("a bad graph file is refused with file, field and reason") {
  check_graph_refused(changed("meshwright-graph", "meshwright-plan"),
                      "g.json: format: expected \"meshwright-graph\", found \"meshwright-plan\"");
  check_graph_refused(changed("\"version\": 1", "\"version\": 2"),
                      "g.json: version: expected a whole number from 1 to 1, found 2");
  check_graph_refused(changed("\"name\": \"small\",", ""), "g.json: the field \"name\" is missing");
  check_graph_refused(
      changed("\"size\": 4", "\"size\": \"4\""),
      "g.json: dims[1].size: expected a size, \"batch\" or \"sequence\", found \"4\"");
  check_graph_refused(
      changed("\"size\": 4", "\"size\": 0"),
      "g.json: dims[1].size: expected a whole number from 1 to 1099511627776, found 0");
  check_graph_refused(
      changed("\"size\": 4", "\"size\": 1e300"),
      "g.json: dims[1].size: expected a whole number from 1 to 1099511627776, found 1e+300");
  check_graph_refused(
      changed("\"dims\": [\"out\", \"in\"]", "\"dims\": [\"out\", \"inn\"]"),
      "g.json: weights[0].dims[1]: expected the name of a dimension, found \"inn\"");
  check_graph_refused(changed("\"dims\": [\"out\", \"in\"]", "\"dims\": [\"batch\", \"in\"]"),
                      "g.json: weights[0].dims: a weight has neither batch nor sequence");
  check_graph_refused(changed("\"inputs\": [\"x\"]", "\"inputs\": [\"z\"]"),
                      "g.json: ops[0].inputs[0]: expected the name of a tensor, found \"z\"");
  check_graph_refused(
      changed("\"matmul\"", "\"matmull\""),
      "g.json: ops[0].kind: expected a kind of op (data/README.md lists them), found "
      "\"matmull\"");
  check_graph_refused(
      changed("\"name\": \"fc\"", "\"name\": \"fc\", \"bias\": true"),
      "g.json: ops[0]: unknown field \"bias\"; known here: inputs, kind, name, outputs, "
      "weights");
  check_graph_refused(changed("\"name\": \"y\"", "\"name\": \"x\""),
                      "g.json: ops[0].outputs[0]: the tensor \"x\" is there already");
  check_graph_refused(changed("\"weights\": [\"w\"],", ""),
                      "g.json: op fc: expected 1 to 2 weights, found 0");
  check_graph_refused(
      changed("[\"batch\", \"out\"]}]", "[\"batch\", \"in\"]}]"),
      "g.json: op fc: every dimension of the weight must be one of the input or of the "
      "output");
  check_graph_refused(
      changed("[\"batch\", \"out\"]}]", "[\"batch\", \"out\"], \"element\": \"int\"}]"),
      "g.json: ops[0].outputs[0].element: expected \"real\" or \"index\", found \"int\"");
}

TEST_CASE("a graph file cut off anywhere is refused") {
  for (std::size_t size = 0; size < kSmall.size(); ++size) {
    CHECK_THROWS_AS(read_graph(JsonInput::parse(kSmall.substr(0, size), "g.json")), InputError);
  }
}

// Each op of a file of its own, with tensors to choose from.
TEST_CASE("operands that a kind of op cannot take are refused") {
  const auto problem = [](const std::string& op) {
    std::string weights;  // a weight that no op uses would be refused
    for (const auto& [name, dims] : std::map<std::string, std::string>{{"w0", ""},
                                                                       {"wh", "\"h\""},
                                                                       {"whalf", "\"half\""},
                                                                       {"weh", "\"e\", \"h\""},
                                                                       {"whe", "\"h\", \"e\""},
                                                                       {"we", "\"e\""}}) {
      if (op.find("\"" + name + "\"") == op.npos) continue;
      weights += (weights.empty() ? "" : ", ") + ("{\"name\": \"" + name) + "\", \"dims\": [" +
                 dims + "]}";
    }
    const std::string text = R"({"format": "meshwright-graph", "version": 1, "name": "ops",
      "dims": [{"name": "b", "size": "batch"}, {"name": "s", "size": "sequence"},
               {"name": "h", "size": 8}, {"name": "half", "size": 4}, {"name": "e", "size": 2},
               {"name": "three", "size": 3}],
      "inputs": [{"name": "x", "dims": ["b", "s", "h"]}, {"name": "scalar", "dims": []},
                 {"name": "choices", "dims": ["b", "s", "e"]},
                 {"name": "i", "dims": ["b", "s"], "element": "index"},
                 {"name": "bs", "dims": ["b", "s"]}, {"name": "sbh", "dims": ["s", "b", "h"]},
                 {"name": "bhs", "dims": ["b", "h", "s"]}, {"name": "sh", "dims": ["s", "h"]},
                 {"name": "heads", "dims": ["b", "s", "e", "h"]},
                 {"name": "few", "dims": ["b", "s", "e", "half"]},
                 {"name": "mixed", "dims": ["s", "b", "e", "h"]},
                 {"name": "is", "dims": ["s"], "element": "index"},
                 {"name": "none", "dims": [], "element": "index"}],
      "weights": [)" + weights +
                             R"(],
      "ops": [{"name": "o", )" +
                             op + "}]}";
    try {
      read_graph(JsonInput::parse(text, "g"));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const auto one = [&](const std::string& kind, const std::string& inputs,
                       const std::string& weights, const std::string& result,
                       const std::string& more = "") {
    return problem("\"kind\": \"" + kind + "\", \"inputs\": [" + inputs + "], \"weights\": [" +
                   weights + R"(], "outputs": [{"name": "y", "dims": [)" + result + "]}]" + more);
  };
  const std::string bsh = R"("b", "s", "h")";
  CHECK(one("embedding", R"("i")", R"("weh")", bsh) == "accepted");
  CHECK(one("embedding", R"("x")", R"("weh")", bsh) == "g: op o: x must be an index");
  CHECK(one("embedding", R"("i")", R"("w0")", R"("b", "s")") ==
        "g: op o: the output must have the dimensions of the index and of a row of the table");
  CHECK(one("relative_bias", "", R"("wh")", bsh) ==
        "g: op o: the output must be [heads, queries, keys] with the heads of the table");
  CHECK(one("expert_matmul", R"("x", "bs")", R"("weh")", R"("b", "s")") ==
        "g: op o: bs must be an index");
  CHECK(one("expert_matmul", R"("x", "none")", R"("weh")", R"("b", "s")") ==
        "g: op o: the second input must be an index over dimensions of the first");
  CHECK(one("expert_matmul", R"("x", "i")", R"("weh")", R"("b", "s")") ==
        "g: op o: the last dimension of the index must have a fixed size");
  CHECK(one("rms_norm", R"("x")", R"("wh")", bsh) == "accepted");
  CHECK(one("rms_norm", R"("x")", "", bsh) == "g: op o: expected 1 weights, found 0");
  CHECK(one("rms_norm", R"("x")", R"("whalf")", bsh) ==
        "g: op o: the gain must have the last dimensions of the input");
  CHECK(one("rms_norm", R"("bhs")", R"("wh")", R"("b", "h", "s")") ==
        "g: op o: the gain must have the last dimensions of the input");
  CHECK(one("rms_norm", R"("x")", R"("w0")", bsh) ==
        "g: op o: the gain must have the last dimensions of the input");
  CHECK(one("rms_norm", R"("x")", R"("wh")", bsh, R"(, "epsilon": -1)") ==
        "g: op o: epsilon: expected at least 0, found -1");
  CHECK(one("layer_norm", R"("x")", R"("wh", "w0")", bsh) ==
        "g: op o: the bias must have the dimensions of the gain");
  CHECK(one("rope", R"("x")", "", bsh, R"(, "rotated": 8)") == "accepted");
  CHECK(one("rope", R"("x")", "", bsh, R"(, "rotated": 9)") ==
        "g: op o: 9 of 8 entries cannot be rotated");
  CHECK(one("rope", R"("scalar")", "", "", R"(, "rotated": 0)") ==
        "g: op o: the input must be [batch, sequence, .., size]");
  CHECK(one("rope", R"("bhs")", "", R"("b", "h", "s")", R"(, "rotated": 0)") ==
        "g: op o: the last dimension of the input must have a fixed size");
  CHECK(one("rope", R"("sbh")", "", R"("s", "b", "h")", R"(, "rotated": 0)") ==
        "g: op o: the batch must come first");
  CHECK(one("rope", R"("x")", "", bsh, R"(, "rotated": 2, "theta": 0)") ==
        "g: op o: theta: expected more than 0, found 0");
  CHECK(one("rope", R"("x")", "", bsh, R"(, "rotated": 2, "factor": -2)") ==
        "g: op o: factor: expected more than 0, found -2");
  CHECK(one("rope", R"("x")", "", bsh, R"(, "rotated": 2, "low_factor": 4)") ==
        "g: op o: low_factor and high_factor: expected 0 < low < high, found 4 and 4");
  CHECK(one("rope", R"("x")", "", bsh, R"(, "rotated": 2, "scaling": "yarn", "low_factor": 4)") ==
        "accepted");
  CHECK(one("rope", R"("x")", "", bsh, R"(, "rotated": 2, "scaling": "yarn", "low_factor": 5)") ==
        "g: op o: low_factor and high_factor: expected 0 < low <= high, found 5 and 4");
  CHECK(one("rope", R"("x")", "", bsh, R"(, "rotated": 2, "scaling": "yarn", "theta": 1)") ==
        "g: op o: theta: expected more than 1 with scaling yarn, found 1");
  CHECK(one("rope", R"("x")", "", bsh, R"(, "rotated": 2, "attention_factor": 0)") ==
        "g: op o: attention_factor: expected more than 0, found 0");
  CHECK(one("rope", R"("x")", "", bsh, R"(, "rotated": 2, "original_positions": 0)") ==
        "g: op o: original_positions: expected at least 1, found 0");
  CHECK(one("rope", R"("x")", "", bsh, R"(, "rotated": -1)") ==
        "g: ops[0].rotated: expected a whole number from 0 to 1099511627776, found -1");
  CHECK(one("dropout", R"("x")", "", bsh, R"(, "probability": 1)") ==
        "g: ops[0].probability: expected a probability of at least 0 and below 1, found 1");
  CHECK(one("activation", R"("x")", "", bsh, R"(, "function": "mish")") ==
        "g: ops[0].function: expected gelu, gelu_tanh, silu, relu, tanh or sigmoid, found "
        "\"mish\"");
  CHECK(one("activation", R"("x")", "", R"("b", "s")", R"(, "function": "gelu")") ==
        "g: op o: the output must have the dimensions of the input");
  CHECK(one("gated_activation", R"("choices", "x")", "", bsh, R"(, "function": "silu")") ==
        "g: op o: the gate's dimensions must be among those of the second input, in their order, "
        "and the output must have all of them");
  CHECK(one("gated_activation", R"("sbh", "x")", "", bsh, R"(, "function": "silu")") ==
        "g: op o: the gate's dimensions must be among those of the second input, in their order, "
        "and the output must have all of them");
  CHECK(one("add", R"("x", "bs")", "", bsh) == "accepted");
  CHECK(one("add", R"("x", "i")", "", bsh) == "g: op o: i must be of real numbers, not an index");
  CHECK(one("add", R"("x")", "", bsh) == "g: op o: expected two operands");
  CHECK(one("add", R"("x", "choices")", "", bsh) ==
        "g: op o: every operand's dimensions must be among the output's");
  CHECK(one("add", R"("bs", "bs")", "", bsh) ==
        "g: op o: every dimension of the output must be one of an operand");
  const auto attention = [&](const std::string& qkv, const std::string& result) {
    return one("attention", qkv, "", result, R"(, "causal": true, "scale": 1)");
  };
  const std::string bseh = R"("b", "s", "e", "h")";
  CHECK(attention(R"("heads", "heads", "heads")", bseh) == "accepted");
  CHECK(attention(R"("heads", "heads", "few")", R"("b", "s", "e", "half")") == "accepted");
  CHECK(attention(R"("x", "x", "x")", bsh) ==
        "g: op o: queries, keys and values must be [batch, sequence, heads.., size]");
  CHECK(attention(R"("heads", "few", "heads")", bseh) ==
        "g: op o: queries, keys and values must agree in batch, sequence and size");
  CHECK(attention(R"("heads", "heads", "heads")", R"("b", "e", "s", "h")") ==
        "g: op o: the output must be the queries' shape with the values' size");
  CHECK(attention(R"("mixed", "mixed", "mixed")", R"("s", "b", "e", "h")") ==
        "g: op o: the batch must come first");
  CHECK(one("matmul", R"("x")", R"("whe")", R"("b", "s", "e")") == "accepted");
  CHECK(one("matmul", R"("x")", R"("weh", "we")", R"("b", "s", "e")") == "accepted");
  CHECK(one("matmul", R"("x")", R"("weh")", R"("b", "e", "s")") ==
        "g: op o: the output must be [b, s, e], the rows of the input and columns of the weight");
  CHECK(one("matmul", R"("bhs")", R"("weh")", R"("b", "s", "e")") ==
        "g: op o: the dimensions summed over must come last in the input: [b, s, h]");
  CHECK(one("matmul", R"("x")", R"("weh", "wh")", R"("b", "s", "e")") ==
        "g: op o: the bias must be [e]");
  CHECK(one("matmul", R"("heads")", R"("whe")", R"("b", "s")") ==
        "g: op o: the weight must be [e, h]");
  CHECK(one("split", R"("x")", "", R"("b", "s", "half")", R"(, "axis": "h")") ==
        "g: op o: the pieces add up to 4, but h is 8");
  CHECK(one("split", R"("x")", "", R"("half")", R"(, "axis": "h")") ==
        "g: op o: a piece must have the input's dimensions, with another for the one cut");
  CHECK(one("split", R"("x")", "", R"("b", "s", "half")", R"(, "axis": "e")") ==
        "g: op o: the dimension that is cut is not the input's");
  CHECK(one("split", R"("x")", "", R"("b", "h")", R"(, "axis": "s")") ==
        "g: op o: the dimension that is cut must have a fixed size");
  CHECK(one("split", R"("x")", "", R"("s", "b", "half")", R"(, "axis": "h")") ==
        "g: op o: a piece must have the input's dimensions, with another for the one cut");
  CHECK(one("concat", R"("bs")", R"("w0")", R"("b", "s", "e")", R"(, "axis": "e")") == "accepted");
  CHECK(one("concat", R"("bs", "bs")", "", R"("b", "s", "three")", R"(, "axis": "three")") ==
        "g: op o: the pieces add up to 2, but three is 3");
  CHECK(one("concat", R"("bs", "bs")", "", R"("b", "s")", R"(, "axis": "s")") ==
        "g: op o: the dimension that is joined must have a fixed size");
  CHECK(one("concat", R"("bs", "bs")", "", R"("b", "s")", R"(, "axis": "e")") ==
        "g: op o: the dimension that is joined is not the output's");
  CHECK(one("select_first", R"("x")", "", R"("b", "h")") == "accepted");
  CHECK(one("select_first", R"("x")", "", R"("b", "s")") ==
        "g: op o: the output must be the input without its second dimension");
  CHECK(one("select_first", R"("sbh")", "", R"("s", "h")") == "g: op o: the batch must come first");
  CHECK(one("dispatch", R"("x", "i")", "", R"("b", "h")") ==
        "g: op o: the output must have the dimensions of the index and the last of the input");
  CHECK(one("combine", R"("x", "bs")", "", R"("b", "h")") == "accepted");
  CHECK(one("combine", R"("x", "bs")", "", R"("b", "s")") ==
        "g: op o: the share must have all dimensions of the input but the last, the output all but "
        "the choices");
  CHECK(one("cross_entropy", R"("x", "i")", "", "") == "accepted");
  CHECK(one("cross_entropy", R"("x", "bs")", "", "") == "g: op o: bs must be an index");
  CHECK(one("cross_entropy", R"("x", "is")", "", "") ==
        "g: op o: the labels must be an index over all dimensions of the logits but the last");
  CHECK(one("cross_entropy", R"("sh", "is")", "", "") ==
        "g: op o: the labels must have the batch: a loss is of samples");
  CHECK(one("cross_entropy", R"("bs", "none")", "", "") ==
        "g: op o: the labels must be an index over all dimensions of the logits but the last");
  CHECK(one("generic", R"("x")", R"("wh")", R"("b")", R"(, "what": "a scan")") == "accepted");
  CHECK(one("generic", R"("x")", "", R"("b", "b")", R"(, "what": "a scan")") ==
        "g: tensor y: has a dimension twice");
  const auto router = [&](const std::string& result, const std::string& element) {
    return problem(R"("kind": "router", "inputs": ["x"], "outputs": [{"name": "p", "dims": [)" +
                   result + R"(]}, {"name": "q", "dims": [)" + result + R"(], "element": ")" +
                   element + "\"}]");
  };
  CHECK(router(R"("b", "s", "e")", "index") == "accepted");
  CHECK(router(R"("b", "s", "e")", "real") == "g: op o: the output q must be an index");
  CHECK(router(R"("b", "e")", "index") ==
        "g: op o: the outputs must have the input's dimensions, with the choices for the experts");
  const auto biased = [&](const std::string& weights, const std::string& numbers) {
    return problem(R"("kind": "router", "inputs": ["x"], "outputs": [{"name": "p", "dims": [)"
                   R"("b", "s", "e"]}, {"name": "q", "dims": ["b", "s", "e"], "element": "index"}])"
                   R"(, "weights": [)" +
                   weights + "], " + numbers);
  };
  CHECK(biased(R"("wh")", R"("balance": 0.5, "bias_rate": 1e-3)") == "accepted");
  CHECK(biased("", R"("balance": 0.5)") == "accepted");
  CHECK(biased("", R"("bias_rate": 1e-3)") == "g: op o: bias_rate: there is no bias to move");
  CHECK(biased(R"("whe")", R"("balance": 0)") ==
        "g: op o: the bias must have a number for every expert");
  CHECK(biased(R"("wh")", R"("balance": -2)") == "g: op o: balance: expected at least 0, found -2");
  CHECK(biased(R"("wh")", R"("bias_rate": -2)") ==
        "g: op o: bias_rate: expected at least 0, found -2");
}

TEST_CASE("what is computed for nothing is refused, and so is a loss that goes on") {
  const std::string scale = R"(, {"kind": "scale", "name": "dead", "inputs": ["y"], "factor": 2,
    "outputs": [{"name": "z", "dims": ["batch", "out"]}]})";
  const std::string more = R"(, {"kind": "scale", "name": "last", "inputs": ["y"], "factor": 2,
    "outputs": [{"name": "end", "dims": ["batch", "out"]}]})";
  const std::string end = R"("dims": ["batch", "out"]}]})";
  check_graph_refused(changed(end + "]", end + scale + more + "]"),
                      "g.json: op dead: no op reads z: leave it out");
  check_graph_refused(
      changed(R"({"name": "w", "dims": ["out", "in"]})",
              R"({"name": "w", "dims": ["out", "in"]}, {"name": "v", "dims": ["in"]})"),
      "g.json: weight v: no op uses it: leave it out");
  check_graph_refused(changed(R"("size": 4)", R"("size": "batch")"),
                      "g.json: weights[0].dims: a weight has neither batch nor sequence");
  check_graph_refused(changed(R"({"name": "out", "size": 8})",
                              R"({"name": "out", "size": 8}, {"name": "b2", "size": "batch"})"),
                      "g.json: dimension b2: there is a batch already, batch");
  const std::string losses = R"(, {"kind": "cross_entropy", "name": "loss", "inputs": ["y", "l"],
    "outputs": [{"name": "loss", "dims": []}]}, {"kind": "scale", "name": "half", "factor": 0.5,
    "inputs": ["loss"], "outputs": [{"name": "half", "dims": []}]}])";
  std::string text = changed(end + "]", end + losses);
  const std::string x = R"({"name": "x", "dims": ["batch", "in"]})";
  text.replace(text.find(x), x.size(),
               x + R"(, {"name": "l", "dims": ["batch"], "element": "index"})");
  check_graph_refused(text,
                      "g.json: op loss: a loss is the end of a graph, and another op reads it");
}

TEST_CASE("unreadable model files are told apart") {
  check_unreadable_files([](const std::filesystem::path& file) {
    // A directory is taken for a folder with a config.json, so it is given one that is a folder.
    if (std::filesystem::is_directory(file)) {
      JsonInput::read(file);
    }
    read_model(file.string(), MESHWRIGHT_DATA);
  });
}

}  // namespace meshwright
