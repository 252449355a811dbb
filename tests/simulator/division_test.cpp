#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>

#include "costmodel/model/model_name.h"
#include "costmodel/price/profile_costs.h"
#include "costmodel/profile/profile_file.h"
#include "simulator/engine/simulate.h"
#include "simulator/lowering/fragment.h"
#include "simulator/lowering/lower.h"
#include "tests/simulator/random_divisions.h"
#include "tests/simulator/small_models.h"
#include "tests/test_scale.h"
#include "tests/user_costs.h"

// What lowering writes against what layouts say, below check_plan.
namespace meshwright {
namespace {

std::int64_t held_elements(const Layout& layout, const PlannedGraph& planned, const Plan& plan,
                           DeviceId device) {
  std::int64_t count = 1;
  const Mesh& mesh = plan.slots[0].mesh;
  for (const DimLayout& dim : layout.dims) {
    const Dim& entry = planned.graph.dims[dim.dim.index()];
    if (entry.role == DimRole::Batch) {
      count *= plan.micro_batch;
      continue;
    }
    const std::int64_t size = entry.role == DimRole::Sequence ? plan.sequence : entry.size;
    count *= size_of(shard_of(dim.sharding, mesh, size, device));
  }
  return count;
}

// By op: its forward kernel's operands, those it reads of tensors, then of weights, then the first
// it writes.
void check_shapes(const PlannedGraph& planned, const Plan& plan, const Placement& placement,
                  const Fragment& fragment) {
  for (const FragmentTask& task : fragment.forward) {
    const auto* kernel = std::get_if<Kernel>(&task.work);
    if (!kernel || kernel->kind != KernelKind::Matmul) continue;
    CAPTURE(kernel->name);
    const OpLayouts& layouts = planned.op(task.op).layouts;
    const auto elements = [&](const Layout& layout) {
      return held_elements(layout, planned, plan, placement.device());
    };
    CHECK(element_count(kernel->operands[0]) == elements(layouts.inputs[0]));
    CHECK(element_count(kernel->operands[1]) == elements(layouts.weights[0]));
    CHECK(element_count(kernel->operands.back()) == elements(layouts.outputs[0]));
  }
}

// Every step of the plan is one transfer of its axes' group that counts what transfers_of says; a
// slice is none.
void check_transfers(const Model& model, const PlannedGraph& planned, const Plan& plan,
                     const Placement& placement, const Fragment& fragment) {
  std::map<std::size_t, std::vector<const Transfer*>> emitted;  // by op, of the forward
  for (const FragmentTask& task : fragment.forward) {
    const auto* transfer = std::get_if<Transfer>(&task.work);
    if (transfer && planned.graph.ops[task.op].kind == OpKind::Matmul) {
      emitted[task.op].push_back(transfer);
    }
  }
  const DimSizes sizes(model, plan.micro_batch, plan.sequence);
  std::set<std::pair<TensorId, Layout>> moved;
  for (std::size_t op = 0; op < planned.graph.ops.size(); ++op) {
    const GraphOp& entry = planned.graph.ops[op];
    // What an earlier op has moved the same way is there already.
    const auto moves_first = [&](std::size_t input) {
      return !planned.steps(op, &OpRelayouts::inputs, input).empty() &&
             moved.insert({entry.inputs[input], planned.op(op).layouts.inputs[input]}).second;
    };
    if (entry.kind != OpKind::Matmul) {
      for (std::size_t input = 0; input < entry.inputs.size(); ++input) moves_first(input);
      continue;
    }
    std::vector<Transfer> expected;
    const auto add = [&](const RelayoutSteps& steps, Layout layout) {
      for (DimLayout& dim : layout.dims) {
        if (planned.graph.dims[dim.dim.index()].role == DimRole::Batch) dim.sharding = {};
      }
      MovedTensor tensor{.sizes = {}, .precision = plan.precision};
      for (const DimLayout& dim : layout.dims) tensor.sizes.push_back(sizes[dim.dim]);
      for (const RelayoutStep& step : steps) {
        for (Transfer& transfer :
             transfers_of(step, layout, placement.mesh(), tensor, placement.device())) {
          expected.push_back(std::move(transfer));
        }
        layout = *layout_after(step, layout);
      }
    };
    if (moves_first(0)) {
      add(planned.steps(op, &OpRelayouts::inputs, 0), planned.tensors[entry.inputs[0].index()]);
    }
    add(planned.steps(op, &OpRelayouts::outputs, 0), planned.op(op).layouts.outputs[0]);
    CAPTURE(entry.name);
    REQUIRE(emitted[op].size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(emitted[op][i]->kind == expected[i].kind);
      CHECK(emitted[op][i]->group == expected[i].group);
      CHECK(element_count(*emitted[op][i]) <= element_count(expected[i]));
    }
  }
}

}  // namespace

TEST_CASE("lowering writes the shapes and transfers that layouts say") {
  const UserCosts costs(test_cluster());
  int planned_cases = 0;
  for (int seed = 0; seed < cases(30, 300); ++seed) {
    CAPTURE(seed);
    SmallModel small;
    small.family = kSmallFamilies.at(static_cast<std::size_t>(seed) % kSmallFamilies.size());
    small.kv_heads = 3;
    const Model model = small_model(small);
    RandomDivision division(model, static_cast<std::uint32_t>(seed));
    const BatchChoice batch{2 * division.replicas(), 8, Precision::FP64};
    const Plan plan = division.plan(batch, test_cluster(), costs);
    const PlannedGraph planned = plan_graph(model, plan);
    if (!planned.problems.empty() || !check_plan(plan, model, test_cluster()).empty()) continue;
    ++planned_cases;
    for (const DeviceId device : devices_of(plan)) {
      const Placement placement(plan, device);
      const Fragment fragment =
          lower_fragment(planned, plan, placement, {0, planned.graph.ops.size()});
      check_shapes(planned, plan, placement, fragment);
      check_transfers(model, planned, plan, placement, fragment);
    }
  }
  CHECK(planned_cases > 0);
}

TEST_CASE("some ops of a chunk are lowered, priced and played by themselves") {
  const Model model = small_gpt();
  const Plan plan =
      small_plan("dp=2,tp=2,zero=3,sequence_parallel=true,recompute=selective", model, 4);
  const PlannedGraph planned = plan_graph(model, plan);
  const UserCosts costs(test_cluster());
  // What all devices of the slot do with one micro-batch of a range of ops.
  const auto programs_of = [&](const OpRange& range) {
    std::vector<Program> programs;
    for (const DeviceId device : devices_of(plan)) {
      const Placement placement(plan, device);
      programs.push_back(program_of(
          lower_fragment(planned, plan, placement, range, FragmentEdges::Given), plan, device));
    }
    return programs;
  };
  const auto time_of = [&](const std::vector<Program>& programs) {
    return simulate(programs, costs).step;
  };
  // The four layers and what stands around them: cut before each layer's first norm.
  std::vector<std::size_t> cuts = {0};
  for (std::size_t op = 0; op < planned.graph.ops.size(); ++op) {
    if (planned.patterns[op] == "layers.*.attention.norm") cuts.push_back(op);
  }
  cuts.push_back(planned.graph.ops.size());
  const std::vector<Program> whole = programs_of({0, planned.graph.ops.size()});
  std::size_t tasks = 0;
  std::vector<Seconds> layers;
  Seconds sum;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const std::vector<Program> part = programs_of({cuts[i], cuts[i + 1]});
    tasks += part[0].tasks.size();
    layers.push_back(time_of(part));
    sum += layers.back();
  }
  CHECK(tasks == whole[0].tasks.size());
  CHECK(layers[1].value() == Approx(layers[2].value()).epsilon(1e-12));
  // One after the other they take what they take together, unless transfers hide.
  CHECK(time_of(whole) <= sum * 1.000001);
  CHECK(time_of(whole) >= sum * 0.5);
}

// Measured times make other paths the cheapest than formulas do.
TEST_CASE("no shipped profile makes plans of tensor parallelism that are not lowered") {
  const std::filesystem::path profiles = std::filesystem::path(MESHWRIGHT_DATA) / "profiles";
  const Model model = make_model(read_model("gpt2", MESHWRIGHT_DATA));
  const std::map<std::string, std::string> clusters = {{"a100-pcie-80", "a100-80-pcie"},
                                                       {"a100-sxm-80", "a100-80"},
                                                       {"b200-sxm", "b200"},
                                                       {"b300-sxm", "b300"},
                                                       {"gb200", "gb200-nvl72"},
                                                       {"gb300", "gb300-nvl72"},
                                                       {"h100-sxm", "h100"},
                                                       {"h200-sxm", "h200"},
                                                       {"l40s", "l40s"},
                                                       {"mi300x", "mi300x"},
                                                       {"v100-sxm2", "v100"}};
  int walked = 0;
  for (const auto& file : std::filesystem::directory_iterator(profiles)) {
    if (file.path().extension() != ".json") continue;
    const Cluster cluster = find_cluster(clusters.at(file.path().stem()) + ":4x4", MESHWRIGHT_DATA);
    const UserCosts formula(cluster);
    const Profile profile = read_profile(file.path());
    const MeasuredTimes times(profile);
    const ProfileCosts costs(times, cluster, formula);
    for (const std::int64_t tp : {2, 3, 4, 6, 8, 12}) {
      for (const std::int64_t sequence : {48, 512}) {
        for (const bool sequence_parallel : {false, true}) {
          PlanChoices choices{.tp = tp, .sequence_parallel = sequence_parallel};
          if (sequence % tp != 0 && sequence_parallel) continue;
          const BatchChoice batch{1, sequence, Precision::BF16};
          const Plan plan = resolve(choices, batch, model, cluster, costs);
          CAPTURE(file.path().filename(), tp, sequence, sequence_parallel);
          CHECK(check_plan(plan, model, cluster) == std::vector<std::string>{});
          ++walked;
        }
      }
    }
  }
  CHECK(walked > 100);
}

// Where keys and values have few heads, detours by other cuts could be the cheapest.
TEST_CASE("however parts of sequences share heads out, on any cluster it is lowered") {
  int walked = 0;
  for (const char* const name : {"mixtral-8x7b", "qwen2-0.5b"}) {
    const Model model = make_model(read_model(name, MESHWRIGHT_DATA));
    for (const char* const devices :
         {"t4:8x4", "rtx4090:4x8", "v100:4x8", "a100-80:4x8", "h100:4x8", "gb200-nvl72:8x4"}) {
      const Cluster cluster = find_cluster(devices, MESHWRIGHT_DATA);
      const UserCosts costs(cluster);
      for (const std::int64_t tp : {1, 2, 4, 8}) {
        for (const std::int64_t heads : {2, 4}) {
          PlanChoices choices{.tp = tp, .cp = 4, .ulysses = heads, .microbatch = 1 + walked % 4};
          const BatchChoice batch{choices.microbatch, 256, Precision::FP16};
          if (!check_choices(choices, batch, model, cluster).empty()) continue;
          CAPTURE(name, devices, tp, heads, choices.microbatch);
          CHECK(check_plan(resolve(choices, batch, model, cluster, costs), model, cluster) ==
                std::vector<std::string>{});
          ++walked;
        }
      }
    }
  }
  CHECK(walked > 50);
}

// Cutting the samples could be, too.
TEST_CASE("no way to another layout goes through the batch") {
  const Model model = make_model(read_model("mixtral-8x7b", MESHWRIGHT_DATA));
  const Cluster cluster = find_cluster("rtx4090:4x8", MESHWRIGHT_DATA);
  const UserCosts costs(cluster);
  for (const std::int64_t samples : {1, 2, 8}) {
    const PlanChoices choices{.tp = 4,
                              .cp = 4,
                              .context = Context::Ulysses,
                              .microbatch = samples,
                              .sequence_parallel = true};
    const BatchChoice batch{samples, 512, Precision::BF16};
    CAPTURE(samples);
    CHECK(check_plan(resolve(choices, batch, model, cluster, costs), model, cluster) ==
          std::vector<std::string>{});
  }
}

}  // namespace meshwright
