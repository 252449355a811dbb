#include "costmodel/graph_file.h"

#include <catch2/catch.hpp>

#include "costmodel/input_error.h"
#include "costmodel/model.h"
#include "costmodel/model_name.h"
#include "costmodel/presets.h"
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
  check_refused(replaced("\"version\": 1", "\"version\": 2"),
                "g.json: version: expected a whole number from 1 to 1, found 2");
  check_refused(replaced("\"name\": \"small\",", ""), "g.json: the field \"name\" is missing");
  check_refused(replaced("\"size\": 4", "\"size\": \"4\""),
                "g.json: dims[1].size: expected a size, \"batch\" or \"sequence\", found \"4\"");
  check_refused(replaced("\"size\": 4", "\"size\": 0"),
                "g.json: dims[1].size: expected a whole number from 1 to 2147483648, found 0");
  check_refused(replaced("\"size\": 4", "\"size\": 1e300"),
                "g.json: dims[1].size: expected a whole number from 1 to 2147483648, found 1e+300");
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
