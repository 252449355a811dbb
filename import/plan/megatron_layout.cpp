#include "import/plan/megatron_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace meshwright {
namespace {

constexpr std::size_t kLongestLayout = 100'000;
constexpr int kDeepestLayout = 16;

// Writes repetitions out.
class LayoutReader {
 public:
  explicit LayoutReader(const std::string& text) : text_(text) {}

  std::optional<std::string> read() {
    auto result = sequence(0);
    if (at_ != text_.size()) return {};
    return result;
  }

 private:
  std::optional<std::string> sequence(int depth) {
    std::string out;
    while (at_ < text_.size() && text_[at_] != ')') {
      std::string unit;
      const char c = text_[at_++];
      if (c == ',') continue;
      if (c == '(') {
        if (depth >= kDeepestLayout) return {};
        const auto inside = sequence(depth + 1);
        if (!inside || at_ >= text_.size()) return {};
        ++at_;
        unit = *inside;
      } else {
        unit = c;
      }
      const auto times = repetition();
      if (!times || out.size() + unit.size() * *times > kLongestLayout) return {};
      for (std::size_t i = 0; i < *times; ++i) out += unit;
    }
    return out;
  }

  // "*12", else once.
  std::optional<std::size_t> repetition() {
    if (at_ >= text_.size() || text_[at_] != '*') return 1;
    ++at_;
    std::size_t number = 0, digits = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_, ++digits) {
      number = number * 10 + static_cast<std::size_t>(text_[at_] - '0');
      if (number > kLongestLayout) return {};
    }
    return digits > 0 ? std::optional(number) : std::nullopt;
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

std::string no_layers() {
  return "how stages are cut depends on the layers of the model: no file says them; give --model";
}

// Layers of the stages where the ends are given, or embedding and loss count as layers, which they
// do in the first and the last chunk; each stage is cut into as many chunks.
std::variant<std::vector<std::int64_t>, std::string> uneven(const MegatronStages& stages,
                                                            std::int64_t chunks) {
  if (!stages.layers) return no_layers();
  std::int64_t middle_layers = *stages.layers, middle = stages.pp;
  std::vector<std::int64_t> layers(static_cast<std::size_t>(stages.pp));
  if (stages.with_embedding || stages.with_loss) {
    middle_layers += (stages.with_embedding ? 1 : 0) + (stages.with_loss ? 1 : 0);
  }
  for (const auto& given : {stages.first, stages.last}) {
    if (!given) continue;
    middle_layers -= *given;
    --middle;
  }
  const bool divides = middle > 0 ? middle_layers >= 0 && middle_layers % middle == 0
                                  : middle == 0 && middle_layers == 0;
  if (!divides) {
    return fmt::format("{} layers cannot be cut into {} stages as asked", *stages.layers,
                       stages.pp);
  }
  std::ranges::fill(layers, middle > 0 ? middle_layers / middle : 0);
  if (stages.first) layers.front() = *stages.first;
  if (stages.last) layers.back() = *stages.last;
  if (std::ranges::any_of(layers, [&](std::int64_t one) { return one % chunks != 0; })) {
    return fmt::format("stages of {} layers cannot be cut into {} chunks each",
                       fmt::join(layers, ", "), chunks);
  }
  std::vector<std::int64_t> cut;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    for (const std::int64_t one : layers) cut.push_back(one / chunks);
  }
  if (stages.with_embedding) --cut.front();
  if (stages.with_loss) --cut.back();
  return cut;
}

std::variant<StageChoice, std::string> by_layout(const MegatronStages& stages) {
  const auto layers = parse_layout(*stages.layout);
  if (!layers) {
    return fmt::format(
        "--pipeline-model-parallel-layout {}: expected such as Et*3|t*4|t*4L, without layers of "
        "multi-token prediction",
        stages.layout->substr(0, 60));
  }
  const auto chunks = static_cast<std::int64_t>(layers->size());
  if (chunks % stages.pp != 0) {
    return fmt::format("--pipeline-model-parallel-layout has {} chunks, no multiple of pp={}",
                       chunks, stages.pp);
  }
  return StageChoice{chunks / stages.pp, *layers};
}

}  // namespace

std::optional<std::vector<std::int64_t>> parse_layout(const std::string& text) {
  const auto written = LayoutReader(text).read();
  if (!written || !written->starts_with('E') || !written->ends_with('L')) return {};
  std::vector<std::int64_t> layers = {0};
  for (std::size_t i = 1; i + 1 < written->size(); ++i) {
    const char c = (*written)[i];
    if (c == '|') {
      layers.push_back(0);
    } else if (c == 't') {
      ++layers.back();
    } else {
      return {};
    }
  }
  return layers;
}

std::variant<StageChoice, std::string> stages_of(const MegatronStages& stages) {
  if (stages.layout) return by_layout(stages);
  StageChoice choice{.chunks = stages.chunks.value_or(1)};
  if (stages.layers_per_chunk) {
    if (!stages.layers) return no_layers();
    const std::int64_t each = *stages.layers / stages.pp;
    if (*stages.layers % stages.pp != 0 || each % *stages.layers_per_chunk != 0) {
      return fmt::format("{} layers cannot be cut into {} stages of chunks of {}", *stages.layers,
                         stages.pp, *stages.layers_per_chunk);
    }
    choice.chunks = each / *stages.layers_per_chunk;
  }
  if (stages.pp == 1) choice.chunks = 1;
  const bool ends = stages.first || stages.last || stages.with_embedding || stages.with_loss;
  if (!ends || stages.pp == 1) return choice;
  const auto layers = uneven(stages, choice.chunks);
  if (const auto* reason = std::get_if<std::string>(&layers)) return *reason;
  choice.layers = std::get<std::vector<std::int64_t>>(layers);
  return choice;
}

}  // namespace meshwright
