#include "costmodel/model/graph_file.h"

#include <catch2/catch.hpp>

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

std::string replaced(std::string_view from, std::string_view to) {
  std::string text(kSmall);
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

void check_refused(const std::string& text, const std::string& message) {
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
  for (std::size_t i = 0; i < names.size(); i += static_cast<std::size_t>(cases(5, 1))) {
    CAPTURE(names[i]);
    const OpGraph graph = read_model(names[i], MESHWRIGHT_DATA);
    const std::string text = graph_text(graph);
    const OpGraph read = read_graph(JsonInput::parse(text, names[i]));
    CHECK(make_model(read) == make_model(graph));
    CHECK(graph_text(read) == text);
  }
}

TEST_CASE("a bad graph file is refused with file, field and reason") {
  check_refused(replaced("meshwright-graph", "meshwright-plan"),
                "g.json: format: expected \"meshwright-graph\", found \"meshwright-plan\"");
  check_refused(replaced("\"version\": 1", "\"version\": 2"),
                "g.json: version: expected a whole number from 1 to 1, found 2");
  check_refused(replaced("\"name\": \"small\",", ""), "g.json: the field \"name\" is missing");
  check_refused(replaced("\"size\": 4", "\"size\": \"4\""),
                "g.json: dims[1].size: expected a size, \"batch\" or \"sequence\", found \"4\"");
  check_refused(replaced("\"size\": 4", "\"size\": 0"),
                "g.json: dims[1].size: expected a whole number from 1 to 1099511627776, found 0");
  check_refused(
      replaced("\"size\": 4", "\"size\": 1e300"),
      "g.json: dims[1].size: expected a whole number from 1 to 1099511627776, found 1e+300");
  check_refused(replaced("\"dims\": [\"out\", \"in\"]", "\"dims\": [\"out\", \"inn\"]"),
                "g.json: weights[0].dims[1]: expected the name of a dimension, found \"inn\"");
  check_refused(replaced("\"dims\": [\"out\", \"in\"]", "\"dims\": [\"batch\", \"in\"]"),
                "g.json: weights[0].dims: a weight has neither batch nor sequence");
  check_refused(replaced("\"inputs\": [\"x\"]", "\"inputs\": [\"z\"]"),
                "g.json: ops[0].inputs[0]: expected the name of a tensor, found \"z\"");
  check_refused(replaced("\"matmul\"", "\"matmull\""),
                "g.json: ops[0].kind: expected a kind of op (data/README.md lists them), found "
                "\"matmull\"");
  check_refused(replaced("\"name\": \"fc\"", "\"name\": \"fc\", \"bias\": true"),
                "g.json: ops[0]: unknown field \"bias\"; known here: inputs, kind, name, outputs, "
                "weights");
  check_refused(replaced("\"name\": \"y\"", "\"name\": \"x\""),
                "g.json: ops[0].outputs[0]: the tensor \"x\" is there already");
  check_refused(replaced("\"weights\": [\"w\"],", ""),
                "g.json: op fc: expected 1 to 2 weights, found 0");
  check_refused(replaced("[\"batch\", \"out\"]}]", "[\"batch\", \"in\"]}]"),
                "g.json: op fc: every dimension of the weight must be one of the input or of the "
                "output");
  check_refused(replaced("[\"batch\", \"out\"]}]", "[\"batch\", \"out\"], \"element\": \"int\"}]"),
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
    const std::string text = R"({"format": "meshwright-graph", "version": 1, "name": "ops",
      "dims": [{"name": "b", "size": "batch"}, {"name": "s", "size": "sequence"},
               {"name": "h", "size": 8}, {"name": "half", "size": 4}, {"name": "e", "size": 2},
               {"name": "three", "size": 3}],
      "inputs": [{"name": "x", "dims": ["b", "s", "h"]}, {"name": "scalar", "dims": []},
                 {"name": "choices", "dims": ["b", "s", "e"]},
                 {"name": "i", "dims": ["b", "s"], "element": "index"},
                 {"name": "bs", "dims": ["b", "s"]},
                 {"name": "none", "dims": [], "element": "index"}],
      "weights": [{"name": "w0", "dims": []}, {"name": "wh", "dims": ["h"]},
                  {"name": "whalf", "dims": ["half"]}, {"name": "weh", "dims": ["e", "h"]}],
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
  CHECK(one("embedding", R"("x")", R"("weh")", bsh) == "g: op o: the input must be an index");
  CHECK(one("embedding", R"("i")", R"("w0")", R"("b", "s")") ==
        "g: op o: the output must have the dimensions of the index and of a row of the table");
  CHECK(one("relative_bias", "", R"("wh")", bsh) ==
        "g: op o: the output must be [heads, queries, keys] with the heads of the table");
  CHECK(one("expert_matmul", R"("x", "bs")", R"("weh")", R"("b", "s")") ==
        "g: op o: the second input must be an index over dimensions of the first");
  CHECK(one("expert_matmul", R"("x", "none")", R"("weh")", R"("b", "s")") ==
        "g: op o: the second input must be an index over dimensions of the first");
  CHECK(one("expert_matmul", R"("x", "i")", R"("weh")", R"("b", "s")") ==
        "g: op o: the last dimension of the index must have a fixed size");
  CHECK(one("rms_norm", R"("x")", R"("wh")", bsh) == "accepted");
  CHECK(one("rms_norm", R"("x")", "", bsh) == "g: op o: expected 1 weights, found 0");
  CHECK(one("rms_norm", R"("x")", R"("whalf")", bsh) ==
        "g: op o: the gain must have dimensions of the input");
  CHECK(one("layer_norm", R"("x")", R"("wh", "w0")", bsh) ==
        "g: op o: the bias must have the dimensions of the gain");
  CHECK(one("rope", R"("x")", "", bsh, R"(, "rotated": 8)") == "accepted");
  CHECK(one("rope", R"("x")", "", bsh, R"(, "rotated": 9)") ==
        "g: op o: 9 of 8 entries cannot be rotated");
  CHECK(one("rope", R"("scalar")", "", "", R"(, "rotated": 0)") ==
        "g: op o: the last dimension of the input must have a fixed size");
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
        "g: op o: the gate's dimensions must be among those of the second input and of the output");
  CHECK(one("add", R"("x", "bs")", "", bsh) == "accepted");
  CHECK(one("add", R"("x")", "", bsh) == "g: op o: expected two operands");
  CHECK(one("add", R"("x", "choices")", "", bsh) ==
        "g: op o: every operand's dimensions must be among the output's");
  CHECK(one("add", R"("bs", "bs")", "", bsh) ==
        "g: op o: every dimension of the output must be one of an operand");
  CHECK(one("attention", R"("bs", "bs", "bs")", "", R"("b", "s")",
            R"(, "causal": true, "scale": 1)") ==
        "g: op o: queries, keys and values must be [batch, sequence, heads.., size]");
  CHECK(one("attention", R"("x", "x", "x")", "", bsh, R"(, "causal": true, "scale": 1)") ==
        "accepted");
  CHECK(one("attention", R"("x", "choices", "x")", "", bsh, R"(, "causal": true, "scale": 1)") ==
        "g: op o: queries, keys and values must agree in batch, sequence and size");
  CHECK(
      one("attention", R"("x", "x", "x")", "", R"("b", "s")", R"(, "causal": true, "scale": 1)") ==
      "g: op o: the output must be the queries' shape with the values' size");
  CHECK(one("split", R"("x")", "", R"("b", "s", "half")", R"(, "axis": "h")") ==
        "g: op o: the pieces add up to 4, but h is 8");
  CHECK(one("split", R"("x")", "", R"("half")", R"(, "axis": "h")") ==
        "g: op o: a piece must have the input's dimensions, with another for the one cut");
  CHECK(one("split", R"("x")", "", R"("b", "s", "half")", R"(, "axis": "e")") ==
        "g: op o: the dimension that is cut is not the input's");
  CHECK(one("split", R"("x")", "", R"("b", "h")", R"(, "axis": "s")") ==
        "g: op o: the dimension that is cut must have a fixed size");
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
  CHECK(one("dispatch", R"("x", "bs")", "", bsh) ==
        "g: op o: the output must have the dimensions of the index and the last of the input");
  CHECK(one("combine", R"("x", "bs")", "", R"("b", "h")") == "accepted");
  CHECK(one("combine", R"("x", "bs")", "", R"("b", "s")") ==
        "g: op o: the share must have all dimensions of the input but the last, the output all but "
        "the choices");
  CHECK(one("cross_entropy", R"("x", "bs")", "", "") ==
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
  CHECK(router(R"("b", "s", "e")", "real") == "g: op o: the second output must be an index");
  CHECK(router(R"("b", "e")", "index") ==
        "g: op o: the outputs must have the input's dimensions, with the choices for the experts");
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
