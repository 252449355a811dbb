#include <catch2/catch.hpp>

#include "costmodel/model_name.h"
#include "executor/safetensors.h"
#include "tests/laws/training.h"

// Another framework's loss and gradients in float64 (tests/data/reference).
namespace meshwright {
namespace {

constexpr auto kFolder = MESHWRIGHT_TEST_DATA "/reference/tiny_gpt2";

// Row by row, the labels being the tokens that follow; the last token has none.
FixedInputs shifted_inputs(const GlobalTensor& tokens) {
  const std::int64_t rows = tokens.shape[0], length = tokens.shape[1];
  FixedInput inputs{.row_size = length}, labels{.row_size = length};
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < length; ++i) {
      const auto at = static_cast<std::size_t>(r * length + i);
      inputs.values.push_back(static_cast<std::int32_t>(tokens.values[at]));
      labels.values.push_back(i + 1 < length ? static_cast<std::int32_t>(tokens.values[at + 1])
                                             : -1);
    }
  }
  return FixedInputs(rows, {{"tokens", inputs}, {"labels", labels}});
}

}  // namespace

TEST_CASE("the reference GPT-2's loss and gradients are met under every plan") {
  const Model model = make_model(read_model(kFolder, MESHWRIGHT_DATA));
  const GlobalTensors expected =
      SafetensorsFile(std::string(kFolder) + "/expected.safetensors").read_all();
  const GlobalTensors weights =
      SafetensorsFile(std::string(kFolder) + "/model.safetensors").read_all();
  GlobalTensors gradients;
  for (const auto& [name, tensor] : expected) {
    if (name.starts_with("grad.")) gradients[name.substr(5)] = tensor;
  }
  REQUIRE(gradients.size() == 28);  // 12 a layer, two embeddings, the last norm
  const FixedInputs data = shifted_inputs(expected.at("input_ids"));
  for (const char* choices :
       {"microbatch=2", "microbatch=1", "dp=2,microbatch=1", "tp=2,microbatch=2",
        "pp=2,microbatch=1", "dp=2,tp=2,pp=2,zero=1,microbatch=1", "tp=3,microbatch=1"}) {
    CAPTURE(choices);
    const Plan plan = small_plan(choices, model, 2, 16);
    const RunResult run =
        run_threads(lower_all(model, plan), {}, {.steps = 1, .worker = {.keep_gradients = true}},
                    weights_from(weights), data);
    CHECK(std::abs(run.steps[0].loss - expected.at("loss").values[0]) <= 1e-9);
    CHECK(largest_error(gradients, run.gradients) <= 1e-9);
  }
}

}  // namespace meshwright
