#include "tests/planner/drawn_questions.h"

#include <cstddef>
#include <vector>

#include "planner/search/space.h"
#include "tests/planner/all_plans.h"
#include "tests/planner/random_memory.h"

namespace meshwright {
namespace {

std::vector<KeyValue> draw_pins(RandomChoices& random) {
  std::vector<KeyValue> pins = {{"bucket", random.one_of<std::string>({"25 MiB", "400 MiB"})},
                                {"offload", "none"},
                                {"zero", random.one_of<std::string>({"0", "1", "2", "3"})},
                                {"microbatch", random.one_of<std::string>({"1", "2"})},
                                {"schedule", "1f1b"},
                                {"pp", random.one_of<std::string>({"1", "2"})}};
  // Half of them leave what is kept open.
  if (random.yes()) {
    pins.push_back({"recompute", random.one_of<std::string>({"none", "full"})});
  }
  return pins;
}

// Of what makes a wide space wide most is left open more often than not.
std::vector<KeyValue> draw_wide_pins(RandomChoices& random, std::int64_t devices) {
  std::vector<KeyValue> pins = {
      {"bucket", random.one_of<std::string>({"25 MiB", "400 MiB"})},
      {"offload", random.one_of<std::string>({"none", "optimizer", "activations"})},
      {"zero", random.one_of<std::string>({"0", "1", "2", "3"})},
      {"microbatch", random.one_of<std::string>({"1", "2", "4"})},
      {"schedule", random.one_of<std::string>({"1f1b", "gpipe", "interleaved"})},
      {"recompute", random.one_of<std::string>({"none", "full", "selective", "first:1"})}};
  for (const char* key : {"tp", "cp", "pp", "dp"}) {
    const auto degree = random.one_of<std::int64_t>({1, 2, 2, 4});
    if (degree > devices) continue;
    pins.push_back({key, std::to_string(degree)});
    devices /= degree;
  }
  return pins;
}

// Whether all plans are too many to simulate them; those of large spaces are not even counted.
bool is_large(const SearchQuestion& question, const Setting& setting) {
  constexpr std::size_t kMost = 300;
  constexpr double kUncounted = 4000;
  if (question.wide && *SearchSpace(question, setting).size() > kUncounted) return true;
  return all_plans(question, setting).size() > kMost;
}

}  // namespace

SmallCase draw_case(RandomChoices& random) {
  SmallCase one{random.one_of<std::string>({"gpt2", "gpt3-1.3b", "llama3-8b", "mixtral-8x7b"}),
                random.one_of<std::string>({"h100:1x2", "h100:1x6", "h100:2x4", "a100-80:2x6",
                                            "rtx4090:2x2", "t4:4x4", "a100-40:1x8", "h100:1x3"}),
                random.one_of<std::string>({"none", "megatron-core", "megatron-lm", "fsdp"})};
  one.layers = random.one_of<std::int64_t>({2, 3, 4, 6});
  one.batch = random.one_of<std::int64_t>({4, 6, 8, 12, 16});
  one.sequence = random.one_of<std::int64_t>({128, 256, 512});
  return one;
}

SearchQuestion draw_question(RandomChoices& random, const SmallCase& one, const Setting& setting,
                             bool wide) {
  SearchQuestion question{
      .batch = {one.batch, one.sequence, usual_precision_of(setting.cluster)},
      .defaults = choices_of(setting.defaults, usual_precision_of(setting.cluster))};
  question.gap = 0;
  question.most_simulated = 100'000;
  question.top = 3;
  question.wide = wide;
  if (random.yes(0.7)) {
    question.max_memory =
        memory_about_a_plan(random, question, setting, {0.4, 0.6, 0.75, 0.9, 1.0});
  }
  std::vector<KeyValue> pins =
      wide ? draw_wide_pins(random, device_count(setting.cluster)) : draw_pins(random);
  while (is_large(question, setting) && !pins.empty()) {
    const std::size_t next = random.one_of<std::size_t>([&] {
      std::vector<std::size_t> indices(pins.size());
      for (std::size_t i = 0; i < pins.size(); ++i) indices[i] = i;
      return indices;
    }());
    question.pins.push_back(pins[next]);
    pins.erase(pins.begin() + static_cast<std::ptrdiff_t>(next));
  }
  return question;
}

}  // namespace meshwright
