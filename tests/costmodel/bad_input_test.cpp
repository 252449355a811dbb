#include <catch2/catch.hpp>
#include <functional>
#include <nlohmann/json.hpp>

#include "costmodel/base/input_error.h"
#include "costmodel/cluster/cluster_file.h"
#include "costmodel/model/graph_file.h"
#include "costmodel/model/import/hugging_face.h"
#include "costmodel/model/model_costs.h"
#include "costmodel/model/model_name.h"
#include "tests/costmodel/mutations.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

using nlohmann::json;

struct Reader {
  std::string name;
  std::function<void(const std::string& text)> read;  // and use what was read
  std::vector<json> files;                            // small ones that are right
};

// What is done with every model that is read; sizes may turn out too large only here.
void use_graph(const OpGraph& graph) {
  const Model model = make_model(graph);
  CHECK(count_parameters(make_model(read_graph(JsonInput::parse(graph_text(graph), "g.json")))) ==
        count_parameters(model));
  for (const KernelSet kernels : {KernelSet::Flash, KernelSet::Unfused}) {
    model_costs(model, {.micro_batch = 2, .sequence = 3, .kernels = kernels});
  }
}

void read_config(const std::string& text) {
  use_graph(read_hugging_face(JsonInput::parse(text, "c.json"), "model"));
}

void read_graph_text(const std::string& text) {
  use_graph(read_graph(JsonInput::parse(text, "g.json")));
}

void read_cluster_text(const std::string& text) {
  const Cluster cluster = parse_cluster(text, "c.json");
  for (const LevelId id : levels(cluster)) CHECK(!groups_of(cluster, id).empty());
}

json parse_file(const std::string& file) { return json::parse(read_text_file(file, 1_MiB)); }

json preset(const std::string& folder, const std::string& name) {
  return parse_file(MESHWRIGHT_DATA "/" + folder + "/" + name + ".json");
}

// One config of every family, two layers deep so that reading is quick.
std::vector<json> configs() {
  std::vector<json> files;
  for (const char* name : {"gpt2", "pythia-70m", "opt-350m", "bloom", "llama3-8b", "mistral-7b",
                           "qwen2-0.5b", "qwen3-0.6b", "gemma-2b", "phi3-mini", "mixtral-8x7b",
                           "qwen2-57b-a14b", "qwen3-30b-a3b", "deepseek-v2-lite", "deepseek-v3",
                           "bert-base", "roberta-base", "vit-base-in21k", "t5-v1.1-small"}) {
    json file = preset("models", name);
    for (const char* layers :
         {"n_layer", "num_hidden_layers", "num_layers", "num_decoder_layers"}) {
      if (file.contains(layers)) file[layers] = 2;
    }
    if (file.contains("first_k_dense_replace")) file["first_k_dense_replace"] = 1;
    files.push_back(std::move(file));
  }
  return files;
}

std::vector<json> graphs() {
  std::vector<json> files;
  for (const json& config : configs()) {
    const OpGraph graph = read_hugging_face(JsonInput::parse(config.dump(), "c.json"), "model");
    files.push_back(json::parse(graph_text(graph)));
  }
  return files;
}

std::vector<Reader> readers() {
  return {{"cluster file",
           read_cluster_text,
           {preset("clusters", "h100"), preset("clusters", "gb200-nvl72")}},
          {"config.json", read_config, configs()},
          {"graph file", read_graph_text, graphs()}};
}

// Reading either goes well or says what is wrong; anything else that is thrown is a bug.
bool is_refused(const Reader& reader, const std::string& text) {
  try {
    reader.read(text);
    return false;
  } catch (const InputError& error) {
    const std::string_view message = error.what();
    CHECK(!message.empty());
    CHECK(message.find('\n') == std::string_view::npos);
    return true;
  }
}

}  // namespace

TEST_CASE("files that are right are read by every reader") {
  for (const Reader& reader : readers()) {
    CAPTURE(reader.name);
    for (const json& file : reader.files) CHECK(!is_refused(reader, file.dump()));
  }
}

TEST_CASE("a file that is cut off is refused, wherever it is cut") {
  for (const Reader& reader : readers()) {
    CAPTURE(reader.name);
    const std::string text = reader.files.front().dump();
    const auto step =
        std::max<std::size_t>(1, text.size() / static_cast<std::size_t>(cases(400, 4'000)));
    for (std::size_t size = 0; size < text.size(); size += step) {
      CAPTURE(size);
      CHECK(is_refused(reader, text.substr(0, size)));
    }
  }
}

TEST_CASE("a file that is nested deeply, of another type or empty is refused") {
  for (const Reader& reader : readers()) {
    CAPTURE(reader.name);
    for (const char* text :
         {"", " ", "null", "true", "3", "\"model\"", "[]", "{}", "[{}]", "\xff"}) {
      CAPTURE(text);
      CHECK(is_refused(reader, text));
    }
    json deep = reader.files.front();
    json nest = 1;
    for (int i = 0; i < 70; ++i) nest = json::array({nest});
    deep["name"] = nest;
    CHECK(is_refused(reader, deep.dump()));
    CHECK(is_refused(reader, std::string(1'000'000, '[')));
    CHECK(is_refused(reader, std::string(1'000'000, '{')));
  }
}

// Another seed: --rng-seed N, or --rng-seed time.
TEST_CASE("a file spoiled at random is read or refused, never worse") {
  const auto seed = Catch::rngSeed();
  for (const Reader& reader : readers()) {
    Mutations mutations(seed);
    int refused = 0;
    const int count = cases(300, 3'000);
    for (int i = 0; i < count; ++i) {
      CAPTURE(reader.name, seed, i);
      const json& file = reader.files[mutations.below(reader.files.size())];
      const std::string text =
          i % 2 == 0 ? mutations.of_values(file) : mutations.of_bytes(file.dump());
      CAPTURE(text.substr(0, 2000));
      refused += is_refused(reader, text) ? 1 : 0;
    }
    CAPTURE(reader.name, refused);
    CHECK(refused > count / 4);
    CHECK(refused < count);
  }
}

}  // namespace meshwright
