#include "tests/laws/law_case.h"

#include <fmt/format.h>

#include <charconv>
#include <random>
#include <stdexcept>

#include "costmodel/base/input_error.h"
#include "simulator/lowering/offload.h"
#include "tests/laws/any_order.h"
#include "tests/laws/training.h"
#include "tests/simulator/random_segments.h"
#include "tests/simulator/small_models.h"
#include "tests/user_costs.h"

namespace meshwright {
namespace {

// Any tp up to 4 divides it, and most of 2 x cp x tp what it is where the sequence is cut.
std::int64_t law_sequence(const LawCase& c) { return c.at("cp") > 1 ? 24 : 12; }

// 0 to 6: none, attention, every layer, two layers, the first of a chunk, every layer as a whole,
// layers but for attention and products.
constexpr std::array kRecompute = {"none",    "selective", "full",    "uniform:2",
                                   "first:1", "full",      "products"};
constexpr std::int64_t kRerunAll = 5;

// How cp devices attend. A double ring of 4 has rings of 2, and so has ulysses beside a ring.
constexpr std::array kContext = {"ring", "ulysses", "rsa", "ring,ulysses=2",
                                 "double-ring,inner_ring=2"};

constexpr std::array kOffload = {"none", "activations", "optimizer", "activations+optimizer"};

class Draw {
 public:
  explicit Draw(std::uint32_t seed) : generator_(seed) {}
  std::int64_t operator()(std::int64_t low, std::int64_t high) {
    return low +
           static_cast<std::int64_t>(generator_() % static_cast<std::uint32_t>(high - low + 1));
  }

 private:
  std::mt19937 generator_;
};

void draw_model(LawCase& c, Draw& draw) {
  c["family"] = draw(0, static_cast<std::int64_t>(kSmallFamilies.size()) - 1);
  c["hidden"] = 2 * draw(4, 14);
  c["layers"] = draw(2, 6);
  c["ffn"] = draw(5, 40);
  c["vocabulary"] = draw(11, 50);
  c["kv_heads"] = draw(1, 4);
  c["queries"] = draw(1, 3);
  c["head_size"] = 4 * draw(1, 2);
  c["window"] = draw(1, 10);
  c["width"] = draw(0, 1) * 6;
  for (const char* flag : {"dropout", "half_rotated", "tied", "bias"}) c[flag] = draw(0, 1);
  c["serial"] = draw(0, 2) == 0;     // gpt_neox: not in parallel
  c["norm_last"] = draw(0, 2) == 0;  // opt
  // Of every weight of embeddings and of the first layers.
  c["frozen"] = draw(0, 4) == 0 ? draw(1, 3) : 0;
}

// Whether several heads of queries meet one of keys and values.
bool shares_kv_heads(const LawCase& c) {
  const std::string family = kSmallFamilies.at(static_cast<std::size_t>(c.at("family")));
  return is_llama_like(family) && !family.starts_with("deepseek");
}

// How experts are shared out, of the ways that go with the degrees.
void draw_experts(LawCase& c, Draw& draw) {
  c["experts"] = 2 * draw(1, 3);
  c["choices"] = draw(1, 2);
  c["ep"] = 1;
  c["etp"] = 0;                               // as tp
  c["capacity"] = 0;                          // tenths; 0: all that come
  c["balance"] = draw(0, 1) * draw(1, 30);    // hundredths
  c["bias_rate"] = draw(0, 1) * draw(1, 30);  // hundredths
  const std::int64_t any = draw(0, 1000), times = draw(3, 20), some = draw(0, 3);
  if (!has_experts(kSmallFamilies.at(static_cast<std::size_t>(c["family"])))) return;
  if (some == 0 || some == 2) c["capacity"] = times;
  if ((some == 1 || some == 2) && c["sequence_parallel"])
    c["etp"] = c["tp"] % 2 == 0 && times % 2 ? 2 : 1;
  const std::int64_t devices = c["dp"] * c["cp"] * c["tp"] / (c["etp"] > 0 ? c["etp"] : c["tp"]);
  std::vector<std::int64_t> degrees;
  for (std::int64_t ep = 1; ep <= devices; ++ep) {
    if (devices % ep == 0 && c["experts"] % ep == 0) degrees.push_back(ep);
  }
  if (!degrees.empty()) c["ep"] = degrees[static_cast<std::size_t>(any) % degrees.size()];
}

SmallModel small_model_of(const LawCase& c) {
  SmallModel model;
  model.positions = 24;
  model.family = kSmallFamilies.at(static_cast<std::size_t>(c.at("family")));
  model.hidden = c.at("hidden");
  model.layers = c.at("layers");
  model.ffn = c.at("ffn");
  model.vocabulary = c.at("vocabulary");
  model.kv_heads = c.at("kv_heads");
  model.queries_per_head = c.at("queries");
  model.head_size = c.at("head_size");
  model.window = c.at("window");
  model.dropout = c.at("dropout") ? 0.1 : 0.0;
  model.rotated = c.at("half_rotated") ? 0.5 : 1;
  model.tied = c.at("tied");
  model.bias = c.at("bias");
  model.parallel = !c.at("serial");
  model.norm_first = !c.at("norm_last");
  model.experts = c.at("experts");
  model.choices = c.at("choices");
  model.further = c.at("further");
  model.balance = static_cast<double>(c.at("balance")) / 100;
  model.bias_rate = static_cast<double>(c.at("bias_rate")) / 100;
  model.width = c.at("width") ? c.at("width") : model.kv_heads * model.head_size;
  return model;
}

double capacity_of(const LawCase& c) { return static_cast<double>(c.at("capacity")) / 10; }

// Gradients of inputs and of weights apart, the latter as late as can be.
void part_gradients(Plan& plan) {
  for (auto& order : plan.order) {
    std::vector<OrderEntry> apart, weights;
    for (OrderEntry entry : order) {
      if (entry.kind != EntryKind::Forward) {
        entry.kind = EntryKind::WeightGradient;
        weights.push_back(entry);
        entry.kind = EntryKind::InputGradient;
      }
      apart.push_back(entry);
    }
    apart.insert(apart.end(), weights.begin(), weights.end());
    order = std::move(apart);
  }
}

// Anything that chunks keep, back at any op.
std::vector<OffloadedTensors> any_offload(Plan plan, const Model& model, std::int64_t seed) {
  Draw draw(static_cast<std::uint32_t>(seed));
  plan.offload.clear();
  if (!check_plan(plan, model, test_cluster()).empty()) return {};
  std::vector<OffloadedTensors> offload;
  for (std::size_t c = 0; c < plan.chunks.size(); ++c) {
    const auto first = static_cast<std::int64_t>(plan.chunks[c].first_op);
    const auto end = static_cast<std::int64_t>(plan.chunks[c].end_op);
    for (const KeptBuffer& kept : kept_for_backward(plan_graph(model, plan), plan, c)) {
      if (draw(0, 1) == 0) continue;
      offload.push_back({.tensors = {kept.name},
                         .back = static_cast<std::size_t>(draw(first + 1, end)),
                         .early = draw(0, 3) == 0});
    }
  }
  return offload;
}

constexpr std::array kTensorForms = {"1d", "2d", "2.5d,depth=2", "3d"};

// 1, 2, 3: a square, two squares, a cube of tensor devices, as many as can be among 16.
void draw_tensor_form(LawCase& c, Draw& draw) {
  c["tensor"] = draw(0, 2) == 0 ? draw(1, 3) : 0;
  c["summa"] = 0;
  if (c["tensor"] == 0) return;
  c["tp"] = c["tensor"] == 1 ? 4 : 8;
  c["microbatch"] *= c["tensor"] == 2 ? 4 : 2;  // samples for every row
  c["microbatches"] = std::min<std::int64_t>(c["microbatches"], 2);
  c["kv_heads"] = std::max<std::int64_t>(c["kv_heads"], c["tensor"] == 3 ? 4 : 2);
  c["summa"] = c["tensor"] < 3 ? draw(0, 1) : 0;
  c["sequence_parallel"] = 0;
  c["shard_groups"] = 1;
  c["pp"] = std::min(c["pp"], 16 / c["tp"]);
  c["dp"] = std::min(c["dp"], 16 / (c["tp"] * c["pp"]));
  if (c["pp"] == 1) c["chunks"] = 1;
}

std::string layers_text(const LawCase& c) {
  Draw draw(static_cast<std::uint32_t>(c.at("uneven")));
  return random_layers(c.at("layers"), c.at("pp") * c.at("chunks"),
                       [&](std::int64_t low, std::int64_t high) { return draw(low, high); });
}

}  // namespace

LawCase random_law_case(std::uint32_t seed) {
  Draw draw(seed);
  LawCase c;
  draw_model(c, draw);
  c["dp"] = draw(1, 3);
  c["tp"] = draw(1, std::min<std::int64_t>(c["kv_heads"], 4));
  // More devices than heads of keys and values: several share one.
  const std::int64_t sharing = c["kv_heads"] * draw(1, c["queries"]);
  if (draw(0, 2) == 0 && sharing <= 5 && shares_kv_heads(c)) c["tp"] = sharing;
  const std::int64_t most = 16 / (c["dp"] * c["tp"]);
  c["pp"] = draw(1, std::min(c["layers"], most));
  c["chunks"] = c["pp"] == 1 ? 1 : draw(1, c["layers"] / c["pp"]);
  c["uneven"] = draw(0, 1) * draw(1, 1000);  // 0: as equal as can be
  c["microbatch"] = draw(1, 2);
  c["microbatches"] = draw(1, 4);
  c["zero"] = draw(0, 3);
  c["prefetch"] = draw(0, 3);
  c["bucket_kib"] = draw(1, 30);
  c["recompute"] = draw(0, static_cast<std::int64_t>(kRecompute.size()) - 1);
  c["segments"] = draw(0, 2) == 0 ? draw(1, 1000) : 0;  // a tree instead
  for (const char* flag : {"gpipe", "late", "sequence_parallel", "stay_whole"})
    c[flag] = draw(0, 1);
  c["apart"] = draw(0, 3) == 0;
  c["any_order"] = draw(0, 3) == 0 ? draw(1, 1000) : 0;
  // 1, 3: what layers keep, 2, 3: the optimizer's state is on the host.
  c["offload"] = draw(0, 1) * draw(1, 3);
  c["anything_away"] = draw(0, 1) * draw(1, 1000);  // not only what layers keep
  // Replicas in so many groups, each of which shares the state out by itself.
  c["shard_groups"] = draw(0, 2) == 0 ? draw(2, 3) : 1;
  if (c["shard_groups"] > 1) c["dp"] = c["shard_groups"] * draw(1, 2);
  // A part of the sequence each, half of the time.
  c["cp"] = draw(0, 1) * draw(2, 4);
  if (c["cp"] == 0) c["cp"] = 1;
  c["context"] = draw(0, static_cast<std::int64_t>(kContext.size()) - 1);
  while (c["dp"] * c["tp"] * c["pp"] * c["cp"] > 16 && c["pp"] > 1) --c["pp"];
  while (c["dp"] * c["tp"] * c["cp"] > 16 && c["tp"] > 1) --c["tp"];
  while (c["dp"] * c["tp"] * c["cp"] > 16) --c["cp"];
  if (c["pp"] == 1) c["chunks"] = 1;
  c["chunks"] = std::min(c["chunks"], c["layers"] / c["pp"]);
  draw_tensor_form(c, draw);
  if (c["tensor"] > 0) c["cp"] = 1;
  draw_experts(c, draw);
  c["further"] = draw(0, 1) * draw(1, 2);
  return c;
}

std::string to_text(const LawCase& law_case) {
  std::string text;
  for (const auto& [name, number] : law_case) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, number);
  }
  return text;
}

LawCase parse_law_case(const std::string& text) {
  LawCase c = random_law_case(0);
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const std::string name(part.substr(0, part.find('=')));
    if (!c.contains(name) || part.size() <= name.size()) {
      throw std::invalid_argument(fmt::format("no number of a case: {}", part));
    }
    const std::string_view number = part.substr(name.size() + 1);
    std::from_chars(number.data(), number.data() + number.size(), c[name]);
  }
  return c;
}

Model model_of(const LawCase& law_case) {
  const Model model = small_model(small_model_of(law_case));
  return law_case.at("frozen") ? with_frozen_layers(model, law_case.at("frozen") - 1) : model;
}

std::int64_t global_batch_of(const LawCase& law_case) {
  return law_case.at("dp") * law_case.at("microbatch") * law_case.at("microbatches");
}

std::string choices_of(const LawCase& c) {
  std::string text = fmt::format(
      "dp={},tp={},pp={},virtual_stages={},zero={},prefetch={},microbatch={},bucket={} KiB,"
      "schedule={},overlap={},sequence_parallel={},recompute={},rerun_all={},reshard={}",
      c.at("dp"), c.at("tp"), c.at("pp"), c.at("chunks"), c.at("zero"), c.at("prefetch"),
      c.at("microbatch"), c.at("bucket_kib"), c.at("gpipe") ? "gpipe" : "1f1b", c.at("late") == 0,
      c.at("sequence_parallel") == 1, kRecompute.at(static_cast<std::size_t>(c.at("recompute"))),
      c.at("recompute") == kRerunAll, c.at("stay_whole") == 0);
  text += fmt::format(",offload={}", kOffload.at(static_cast<std::size_t>(c.at("offload"))));
  if (c.at("summa") > 0) text += ",summa=true";
  text += fmt::format(",tensor={}", kTensorForms.at(static_cast<std::size_t>(c.at("tensor"))));
  if (c.at("cp") > 1) {
    text += fmt::format(",cp={},context={}", c.at("cp"),
                        kContext.at(static_cast<std::size_t>(c.at("context"))));
  }
  const std::int64_t chunks = c.at("pp") * c.at("chunks");
  if (c.at("uneven") > 0 && chunks > 0) text += ",layers=" + layers_text(c);
  if (c.at("ep") > 1) text += fmt::format(",ep={}", c.at("ep"));
  if (c.at("etp") > 0) text += fmt::format(",etp={}", c.at("etp"));
  if (c.at("capacity") > 0) text += fmt::format(",capacity={}", capacity_of(c));
  if (c.at("shard_groups") > 1) text += fmt::format(",shard={}", c.at("dp") / c.at("shard_groups"));
  return text;
}

std::optional<Plan> plan_of(const LawCase& law_case, const Model& model) {
  if (global_batch_of(law_case) < 1 || count_parameters(model).trainable == 0) return std::nullopt;
  try {
    // A frozen layer is a block of its own, where pipelines are not cut.
    const PlanChoices choices = parse_plan_choices(choices_of(law_case));
    const BatchChoice batch{global_batch_of(law_case), law_sequence(law_case), Precision::FP64};
    if (!check_choices(choices, batch, model, test_cluster()).empty()) return std::nullopt;
    Plan plan = resolve(choices, batch, model, test_cluster(), UserCosts(test_cluster()));
    if (law_case.at("segments") > 0) {
      Draw draw(static_cast<std::uint32_t>(law_case.at("segments")));
      plan.recompute =
          random_segments(unroll(model), plan, 3,
                          [&](std::int64_t low, std::int64_t high) { return draw(low, high); });
    }
    if (law_case.at("apart")) part_gradients(plan);
    // What is kept depends on what is computed again.
    if (!plan.offload.empty() && (law_case.at("anything_away") || law_case.at("segments"))) {
      plan.offload = any_offload(plan, model, law_case.at("anything_away"));
    }
    return plan;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

Plan one_device_plan(const LawCase& law_case, const Model& model) {
  const std::int64_t batch = global_batch_of(law_case);
  PlanChoices choices;
  choices.microbatch = batch;
  if (law_case.at("capacity") > 0) choices.capacity = capacity_of(law_case);
  return resolve(choices, {batch, law_sequence(law_case), Precision::FP64}, model, test_cluster(),
                 UserCosts(test_cluster()));
}

double error_of(const LawCase& law_case, const DeviceMaker& make_device) {
  const Model model = model_of(law_case);
  const Trained expected = train(model, one_device_plan(law_case, model));
  const std::int64_t order = law_case.at("any_order");
  const auto change = [&](std::vector<Program>& programs) {
    if (order > 0) programs = in_any_order(programs, static_cast<std::uint32_t>(order));
  };
  const Trained found =
      train(model, plan_of(law_case, model).value(), 3, usual_settings(), change, make_device);
  return std::max(
      {largest_error(expected.losses, found.losses), largest_error(expected.norms, found.norms),
       largest_error(expected.gradients, found.gradients), largest_weight_error(expected, found)});
}

}  // namespace meshwright
