#include <catch2/catch.hpp>
#include <iostream>

#include "costmodel/model/model_name.h"
#include "executor/cpu/cpu_device.h"
#include "executor/safetensors.h"
#include "tests/laws/training.h"

// Another framework's loss and gradients in float64 (tests/data/reference).
namespace meshwright {
namespace {

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

// Experts' tensors, which the other framework has one by one, as one of all: "experts.*.w1.weight".
GlobalTensors joined_experts(const GlobalTensors& tensors, std::int64_t experts) {
  GlobalTensors joined;
  for (std::int64_t e = 0; e < experts; ++e) {
    const std::string number = ".experts." + std::to_string(e) + ".";
    for (const auto& [name, tensor] : tensors) {
      const auto at = name.find(number);
      if (at == name.npos) continue;
      std::string all = name;
      GlobalTensor& together = joined[all.replace(at, number.size(), ".experts.*.")];
      together.shape = {experts, tensor.shape[0], tensor.shape[1]};
      together.values.insert(together.values.end(), tensor.values.begin(), tensor.values.end());
    }
  }
  for (const auto& [name, tensor] : tensors) {
    if (name.find(".experts.") == name.npos) joined[name] = tensor;
  }
  return joined;
}

// A processor that remembers what the first operand of kernels of some kind was, forward.
class WatchingDevice : public CpuDevice {
 public:
  WatchingDevice(const Program& program, KernelKind kind, std::vector<double>& seen)
      : CpuDevice(program, [] { return Seconds(); }), kind_(kind), seen_(seen) {}

  void launch(LaneId lane, const KernelCall& call) override {
    if (call.kernel.kind == kind_ && call.kernel.phase == Phase::Forward) {
      const auto first = call.elements<const double>(0);
      for (std::int64_t i = 0; i < first.count(); ++i) seen_.push_back(first[i]);
    }
    CpuDevice::launch(lane, call);
  }

 private:
  const KernelKind kind_;
  std::vector<double>& seen_;
};

// On one device, with all samples at a time.
void check_seen(const std::string& name, KernelKind kind, const std::string& expected) {
  const std::string folder = std::string(MESHWRIGHT_TEST_DATA "/reference/") + name;
  const Model model = make_model(read_model(folder, MESHWRIGHT_DATA));
  const GlobalTensors all = SafetensorsFile(folder + "/expected.safetensors").read_all();
  const GlobalTensors weights = SafetensorsFile(folder + "/model.safetensors").read_all();
  std::vector<double> seen;
  RunOptions options{.steps = 1};
  options.make_device = [&](const Program& program, Transport&) {
    return std::make_unique<WatchingDevice>(program, kind, seen);
  };
  run_threads(lower_all(model, small_plan("microbatch=2", model, 2, 16)), {}, options,
              weights_from(weights), shifted_inputs(all.at("input_ids")));
  const std::vector<double>& values = all.at(expected).values;
  REQUIRE(seen.size() == values.size());
  double error = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    error = std::max(error, std::abs(seen[i] - values[i]));
  }
  CAPTURE(name, expected);
  CHECK(error <= 1e-12);
}

// The loss and every gradient under each of the choices.
void check_reference(const std::string& name, std::size_t weight_count,
                     const std::vector<std::string>& all_choices) {
  const std::string folder = std::string(MESHWRIGHT_TEST_DATA "/reference/") + name;
  const Model model = make_model(read_model(folder, MESHWRIGHT_DATA));
  const GlobalTensors expected = SafetensorsFile(folder + "/expected.safetensors").read_all();
  const GlobalTensors weights = SafetensorsFile(folder + "/model.safetensors").read_all();
  GlobalTensors gradients;
  for (const auto& [key, tensor] : expected) {
    if (key.starts_with("grad.")) gradients[key.substr(5)] = tensor;
  }
  if (const std::int64_t experts = size_of_dim(model, "experts"); experts > 0) {
    gradients = joined_experts(gradients, experts);
  }
  REQUIRE(gradients.size() == weight_count);
  const FixedInputs data = shifted_inputs(expected.at("input_ids"));
  double worst = 0;
  for (const std::string& choices : all_choices) {
    CAPTURE(name, choices);
    const Plan plan = small_plan(choices, model, 2, 16);
    REQUIRE(check_plan(plan, model, test_cluster()) == std::vector<std::string>{});
    const RunResult run =
        run_threads(lower_all(model, plan), {},
                    {.steps = 1, .worker = {.fill_freed = true, .keep_gradients = true}},
                    weights_from(weights), data);
    const double loss_error = std::abs(run.steps[0].loss - expected.at("loss").values[0]);
    const double error = largest_error(gradients, run.gradients);
    CHECK(loss_error <= 1e-9);
    CHECK(error <= 1e-9);
    worst = std::max({worst, loss_error, error});
  }
  std::cout << name << ": largest error " << worst << "\n";
}

}  // namespace

TEST_CASE("the logits of reference models are met") {
  for (const char* name : {"tiny_gpt2", "tiny_llama", "tiny_mixtral"}) {
    check_seen(name, KernelKind::LossLargest, "logits");
  }
  check_seen("tiny_mixtral", KernelKind::Router, "router_logits");
}

TEST_CASE("the reference GPT-2's loss and gradients are met under every plan") {
  // 12 a layer, two embeddings, the last norm.
  check_reference("tiny_gpt2", 28,
                  {"microbatch=2", "microbatch=1", "dp=2,microbatch=1", "tp=2,microbatch=2",
                   "pp=2,microbatch=1", "dp=2,tp=2,pp=2,zero=1,microbatch=1", "tp=3,microbatch=1"});
}

TEST_CASE("the reference Mixtral's loss and gradients are met under every plan") {
  // 7 and three of all experts a layer, the embedding, the last norm, the head.
  check_reference("tiny_mixtral", 23,
                  {"microbatch=2", "microbatch=1", "dp=2,microbatch=1", "dp=2,zero=3,microbatch=1",
                   "tp=2,microbatch=2", "tp=2,sequence_parallel=true,microbatch=1",
                   "pp=2,recompute=full,microbatch=1", "dp=2,tp=2,pp=2,zero=1,microbatch=1",
                   "dp=2,ep=2,microbatch=1", "dp=2,ep=2,zero=3,microbatch=1",
                   "dp=2,tp=2,ep=4,etp=1,sequence_parallel=true,zero=1,microbatch=1"});
}

TEST_CASE("the reference Llama's loss and gradients are met under every plan") {
  // 9 a layer, the embedding, the last norm, the head. Two kv heads for four of queries: with tp=4
  // two devices share each.
  check_reference("tiny_llama", 21,
                  {"microbatch=2", "microbatch=1", "dp=2,microbatch=1", "dp=2,zero=1,microbatch=1",
                   "tp=2,microbatch=2", "tp=4,microbatch=2",
                   "tp=4,sequence_parallel=true,microbatch=1", "pp=2,microbatch=1",
                   "pp=2,schedule=gpipe,microbatch=1", "dp=2,tp=2,pp=2,zero=1,microbatch=1"});
}

TEST_CASE("the reference DeepSeek's loss and gradients are met under every plan") {
  // 12 a layer, the embedding, the last norm, the head. tests/reference/deepseek.py made it.
  check_reference("tiny_deepseek", 27,
                  {"microbatch=2", "dp=2,zero=1,microbatch=1", "tp=2,microbatch=2",
                   "tp=4,sequence_parallel=true,microbatch=1", "pp=2,recompute=full,microbatch=1",
                   "dp=2,tp=2,pp=2,zero=3,microbatch=1"});
}

TEST_CASE("the reference DeepSeek with experts is met under every plan") {
  // As above in the first layer; in the second 9 of attention and norms, the router, three of all
  // experts, three of the shared ones; the embedding, the last norm, the head.
  check_reference("tiny_deepseek_moe", 31,
                  {"microbatch=2", "dp=2,zero=1,microbatch=1", "tp=2,microbatch=2",
                   "dp=2,ep=2,microbatch=1", "dp=2,tp=2,ep=4,etp=1,sequence_parallel=true,zero=2",
                   "tp=4,ep=2,etp=2,sequence_parallel=true,microbatch=2"});
}

TEST_CASE("the reference DeepSeek whose choices are evened out is met under every plan") {
  // As above, and the bias of the choice, whose gradient is what choices are off by.
  check_reference("tiny_deepseek_balanced", 32,
                  {"microbatch=2", "microbatch=1", "dp=2,zero=3,microbatch=1", "tp=2,microbatch=2",
                   "dp=2,recompute=full,microbatch=1", "cp=2,ep=2,microbatch=2",
                   "dp=2,cp=2,context=ulysses,ep=4,zero=2,microbatch=1",
                   "dp=2,tp=2,ep=4,etp=1,sequence_parallel=true,zero=2,microbatch=1"});
}

TEST_CASE("the reference DeepSeek that predicts further tokens is met under every plan") {
  // As above, and two layers more like the second, with a projection and three norms besides.
  check_reference("tiny_deepseek_further", 71,
                  {"microbatch=2", "dp=2,zero=3,microbatch=1", "tp=2,microbatch=2",
                   "dp=2,recompute=full,microbatch=1", "dp=2,cp=2,ep=4,zero=1,microbatch=1",
                   "cp=2,context=ulysses,ep=2,microbatch=2",
                   "dp=2,tp=2,ep=4,etp=1,sequence_parallel=true,zero=2"});
}

}  // namespace meshwright
