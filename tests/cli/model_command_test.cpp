#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/run_program.h"

namespace meshwright {
namespace {

using Catch::Contains;
using nlohmann::json;

json model_json(const std::string& arguments) {
  const ProgramOutput output = run_program("model " + arguments + " --json");
  INFO(output.err);
  REQUIRE(output.exit_code == 0);
  return json::parse(output.out);
}

void check_refused(int exit_code, const std::string& arguments, const std::string& problem) {
  CAPTURE(arguments);
  const ProgramOutput output = run_program("model " + arguments);
  CHECK(output.exit_code == exit_code);
  CHECK(output.out.empty());
  CHECK_THAT(output.err, Contains(problem));
}

std::string config_text(const char* preset) {
  std::ifstream stream(std::string(MESHWRIGHT_DATA "/models/") + preset + ".json");
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

TEST_CASE("a model is shown with its counts, blocks, kinds of op and FLOPs a token") {
  const ProgramOutput output = run_program("model llama3-8b --seq 8192");
  CHECK(output.exit_code == 0);
  CHECK(output.err.empty());
  CHECK_THAT(output.out, Contains("llama3-8b: 8.03 B parameters (8030261248)\n"));
  CHECK_THAT(output.out, Contains("hidden 4096"));
  CHECK_THAT(output.out, Contains("micro-batch 1, sequence 8192, 2 B per element"));
  CHECK_THAT(output.out, Contains("layers.*"));
  CHECK_THAT(output.out, Contains("x 32"));
  CHECK_THAT(output.out, Contains("\n  attention "));
  // 6 (8,030,261,248 - 525,336,576 embedded only - 266,240 norms) + 12 * 32 * 4096 * 8192.
  CHECK_THAT(output.out, Contains("model FLOPs per token: 57.91 GFLOP, forward and backward\n"));
  CHECK_THAT(output.out, Contains("activations saved for backward: "));
  CHECK_THAT(output.out, !Contains("attention.core"));
  CHECK_THAT(run_program("model llama3-8b --ops").out, Contains("layers.*.attention.core"));
}

TEST_CASE("active, trainable and left out are told where they differ") {
  const std::string mixtral = run_program("model mixtral-8x7b").out;
  CHECK_THAT(mixtral, Contains("active for one token: 12.88 B (12879925248)\n"));
  const TemporaryFolder folder;
  const auto file = folder.write("llava.json", R"({"model_type": "llava",
      "text_config": {"model_type": "llama"}})");
  CHECK_THAT(run_program("model " + file.string()).out,
             Contains("note: only the text model is counted: the file's text_config\n"));
}

TEST_CASE("the JSON document of a model has the promised fields") {
  const json model = model_json("gpt2 --seq 1024 --micro-batch 2");
  CHECK(model.at("parameters") == 124'439'808);
  CHECK(model.at("active_parameters") == 124'439'808);
  // Twice 2 B s (12 L h^2 + V h) + 4 B L s^2 h: see model_costs_test.
  const std::int64_t tokens = 2 * 1024;
  const std::int64_t forward =
      2 * tokens * (12ll * 12 * 768 * 768 + 50257ll * 768) + 4ll * tokens * 12 * 1024 * 768;
  CHECK(model.at("forward_flops") == forward);
  CHECK(model.at("backward_flops") == 2 * forward);
  CHECK(model.at("activation_bytes") > 0);
  CHECK(model.at("tokens") == tokens);
  CHECK(model.at("flops_per_token").get<double>() == Approx(3.0 * forward / tokens));
  const auto& blocks = model.at("blocks");
  REQUIRE(blocks.size() == 3);
  CHECK(blocks[1].at("count") == 12);
  std::int64_t parameters = 0, activations = 0, flops = 0;
  for (const json& block : blocks) {
    const auto count = block.at("count").get<std::int64_t>();
    parameters += count * block.at("parameters").get<std::int64_t>();
    activations += count * block.at("activation_bytes").get<std::int64_t>();
    for (const json& op : block.at("ops")) {
      flops += count * op.at("forward_flops").get<std::int64_t>();
    }
  }
  CHECK(parameters == 124'439'808);
  CHECK(activations == model.at("activation_bytes"));
  CHECK(flops == forward);
}

TEST_CASE("precision and kernels change what is saved, not what is computed") {
  const json bf16 = model_json("gpt2");
  const json fp32 = model_json("gpt2 --precision fp32");
  const json unfused = model_json("gpt2 --kernels unfused");
  CHECK(bf16.at("element_bytes") == 2);
  CHECK(fp32.at("element_bytes") == 4);
  CHECK(fp32.at("activation_bytes") > bf16.at("activation_bytes"));
  CHECK(unfused.at("activation_bytes") > bf16.at("activation_bytes"));
  CHECK(fp32.at("forward_flops") == bf16.at("forward_flops"));
  CHECK(unfused.at("forward_flops") == bf16.at("forward_flops"));
}

TEST_CASE("the sequence is 4096 unless given, or the longest the model has positions for") {
  CHECK(model_json("llama3-8b").at("sequence") == 4096);
  CHECK(model_json("gpt2").at("sequence") == 1024);
  check_refused(2, "gpt2 --seq 2048",
                "--seq 2048: gpt2 has learned positions for a sequence of at most 1024");
  check_refused(2, "roberta-base --seq 513", "at most 512");
}

TEST_CASE("the list names every model preset with its counts") {
  const ProgramOutput output = run_program("model --list");
  CHECK(output.exit_code == 0);
  CHECK_THAT(output.out, Contains("\ngpt2 "));
  CHECK_THAT(output.out, Contains("\ndeepseek-v3 "));
  const json list = json::parse(run_program("model --list --json").out).at("presets");
  CHECK(list.size() >= 30);
  const auto found = std::find_if(list.begin(), list.end(),
                                  [](const json& entry) { return entry.at("name") == "gpt-1t"; });
  REQUIRE(found != list.end());
  CHECK(found->at("parameters") > 1'000'000'000'000);
}

TEST_CASE("a graph file that was written gives the numbers of the model it was written from") {
  const TemporaryFolder folder;
  const auto file = (folder.path() / "written.json").string();
  for (const std::string preset : {"llama3-8b", "deepseek-v2-lite", "t5-small", "vit-base"}) {
    CAPTURE(preset);
    const json direct = model_json(preset + " --graph " + file);
    CHECK(model_json(file) == direct);
  }
  check_refused(44, "gpt2 --graph " + (folder.path() / "none/g.json").string(),
                "g.json: cannot be written: No such file or directory");
}

TEST_CASE("a config.json, the folder it is in and a file of any name are read") {
  const TemporaryFolder folder;
  const auto file = folder.write("config.json", config_text("gpt2"));
  json by_file = model_json(file.string());
  CHECK(by_file.at("name") == folder.path().filename().string());
  CHECK(model_json(folder.path().string()) == by_file);
  const auto renamed = folder.write("mine.json", config_text("gpt2"));
  CHECK(model_json(renamed.string()).at("name") == "mine");
  CHECK(model_json(renamed.string()).at("parameters") == 124'439'808);
  // A name that is not UTF-8 is no reason to fail.
  folder.write("\xff.json", config_text("gpt2"));
  const std::string odd = folder.path().string() + "/\"$(printf '\\377')\".json";
  CHECK(model_json(odd).at("parameters") == 124'439'808);
}

TEST_CASE("what names no model, or options that make no sense, are usage errors") {
  const std::string give_one =
      "meshwright: give one model: a preset (--list shows them), a config.json, a folder or a "
      "graph file\n";
  check_refused(2, "", give_one);
  check_refused(2, "gpt2 --list", give_one);
  check_refused(2, "lama3-8b",
                "unknown model \"lama3-8b\": neither a file nor a preset. Did you mean "
                "llama3-8b? `meshwright model --list` shows the presets.");
  check_refused(2, "gpt2 --precision fp7",
                "--precision fp7: expected bf16, fp16, fp32, fp64 or fp8");
  check_refused(2, "gpt2 --kernels fast",
                "--kernels fast: expected executor, flash, eager or unfused");
  check_refused(2, "gpt2 --seq", "--seq: 1 required INT missing (--help shows the usage)\n");
  check_refused(2, "gpt2 --seq 0", "--seq 0: expected a whole number of at least 1\n");
  check_refused(2, "gpt2 --seq -5", "--seq -5: expected a whole number of at least 1\n");
  check_refused(2, "gpt2 --seq many", "--seq: expected a whole number such as 2048");
  check_refused(2, "gpt2 --micro-batch 0", "--micro-batch 0: expected a whole number of at least");
  check_refused(2, "gpt2 --micro-batch 99999999999999999999", "--micro-batch");
  check_refused(2, "gpt2 --micro-batch 9223372036854775807 --seq 1024",
                "--micro-batch 9223372036854775807 --seq 1024: the sizes are too large: ");
}

TEST_CASE("a bad model file has its own exit code and is named") {
  const TemporaryFolder folder;
  const auto bad = folder.write("bad.json", "{\"model_type\": \"mamba\"}");
  check_refused(20, bad.string(), bad.string() + ": model_type: expected a supported family");
  const auto cut = folder.write("cut.json", "{\"model_type\": ");
  check_refused(20, cut.string(), cut.string() + ": line 1, column 16: not valid JSON");
  check_refused(20, folder.path().string(),
                (folder.path() / "config.json").string() + ": cannot be read: No such file");
  // The file's own sizes, whatever is asked of it.
  const auto huge = folder.write("huge.json", R"({"model_type": "llama", "vocab_size": 2147483648,
      "hidden_size": 2147483648, "intermediate_size": 2147483648, "num_hidden_layers": 8,
      "num_attention_heads": 1})");
  check_refused(20, huge.string(), "does not fit into 64 bits");
}

}  // namespace meshwright
