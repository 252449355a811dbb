#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "simulator/lowering/lower.h"
#include "simulator/program/arena.h"
#include "simulator/program/check_program.h"
#include "tests/simulator/small_models.h"
#include "tests/simulator/small_plans.h"

// What experts move, keep and share out, in closed form. n tokens of a device's micro-batch, k
// choices, h hidden, f an expert's width, e devices that share experts out.
namespace meshwright {
namespace {

constexpr std::int64_t kExpertSequence = 8;

SmallModel four_experts() {
  return {.family = "mixtral", .hidden = 16, .layers = 3, .ffn = 12, .experts = 4, .choices = 2};
}

std::vector<Program> expert_programs(const std::string& choices, std::int64_t global_batch,
                                     Precision precision = Precision::BF16) {
  const Model model = small_model(four_experts());
  const Plan plan = small_plan(choices, model, global_batch, kExpertSequence, precision);
  CHECK(check_plan(plan, model, test_cluster()) == std::vector<std::string>{});
  auto programs = lower_all(model, plan);
  CHECK(check_programs(programs) == std::vector<std::string>{});
  return programs;
}

struct Sent {
  std::int64_t transfers = 0;
  double bytes = 0;
};
Sent sent_to_experts(const Program& program) {
  Sent sent;
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::Transfer) continue;
    const Transfer& transfer = program.transfer(task);
    if (transfer.purpose != Purpose::Experts || transfer.kind != TransferKind::AllToAll) continue;
    ++sent.transfers;
    sent.bytes += bytes_sent(transfer, program.precision);
  }
  return sent;
}

// Bytes that ops of the experts keep from the forward to the backward.
Bytes kept_by_experts(const Program& program) {
  std::size_t turn = 0;
  while (program.tasks[turn].kind != TaskKind::Kernel ||
         program.kernel(program.tasks[turn]).kind != KernelKind::Loss ||
         program.kernel(program.tasks[turn]).phase == Phase::Forward) {
    ++turn;
  }
  const auto lives = lifetimes_of(program);
  Bytes kept;
  for (std::size_t b = 0; b < lives.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    const bool experts = std::string(buffer.name.text()).find("ffn.experts.") != std::string::npos;
    if (!experts || buffer.persistent || buffer.element != BufferElement::Real || !lives[b])
      continue;
    if (lives[b]->first < turn && lives[b]->last >= turn) {
      kept += expected_bytes_of(buffer, program.precision);
    }
  }
  return kept;
}

std::string problem_of(const std::string& choices, std::int64_t global_batch = 8) {
  const Model model = small_model(four_experts());
  const auto problems =
      check_choices(parse_plan_choices(choices), {global_batch, kExpertSequence, Precision::BF16},
                    model, test_cluster());
  return problems.empty() ? "" : problems.front();
}

}  // namespace

TEST_CASE(
    "experts take four all-to-alls a layer of n k 2h (e-1)/e bytes, and six if computed again") {
  for (const std::int64_t e : {2, 4}) {
    // Of a layer that is computed again nothing needs the rows that go back.
    for (const auto& [recompute, count] :
         {std::pair("none", 4), std::pair("full", 5), std::pair("full,rerun_all=true", 6)}) {
      CAPTURE(e, recompute);
      const auto programs = expert_programs(
          "dp=4,ep=" + std::to_string(e) + ",microbatch=1,kernels=flash,recompute=" + recompute, 8);
      const double n = 8, k = 2, h = 16, layers = 3, microbatches = 2;
      const auto share = static_cast<double>(e - 1) / static_cast<double>(e);
      for (const Program& program : programs) {
        const Sent sent = sent_to_experts(program);
        CHECK(static_cast<double>(sent.transfers) == count * layers * microbatches);
        CHECK(sent.bytes == Approx(count * layers * microbatches * n * k * 2 * h * share));
      }
    }
  }
}

TEST_CASE("experts keep k (2h + 6f) bytes a token, however they are shared out") {
  const std::int64_t n = kExpertSequence, k = 2, h = 16, f = 12, layers = 3;
  for (const std::string choices : {"dp=4", "dp=4,ep=2", "dp=4,ep=4"}) {
    CAPTURE(choices);
    const auto programs = expert_programs(choices + ",microbatch=1,kernels=flash", 4);
    CHECK(kept_by_experts(programs[1]).value() == layers * n * k * (2 * h + 6 * f));
  }
}

TEST_CASE(
    "a device holds its experts alone, and their gradients are summed over those that share them") {
  const auto programs = expert_programs("dp=4,ep=2,zero=1,microbatch=1", 4);
  for (const Program& program : programs) {
    for (const WeightShard& shard : program.weights) {
      if (shard.name.find(".experts.") == std::string::npos) continue;
      CHECK(shard.sizes[0] == 2);
      // Neighbours share experts out: 0 and 1, 2 and 3.
      CHECK(shard.place[0].start == static_cast<std::int64_t>(program.device.index()) % 2 * 2);
    }
    std::set<std::size_t> groups;
    for (const Transfer& transfer : program.transfers) {
      if (transfer.purpose == Purpose::Gradients) groups.insert(transfer.group.size());
    }
    CHECK(groups == std::set<std::size_t>{2, 4});
  }
}

TEST_CASE("parts of a sequence and replicas share experts out together, and ZeRO the rest") {
  for (const std::string context : {"ring", "ulysses", "rsa"}) {
    CAPTURE(context);
    const auto programs =
        expert_programs("dp=4,cp=2,ep=4,zero=1,microbatch=1,kernels=flash,context=" + context, 4);
    const double n = 8 / 2.0, k = 2, h = 16, layers = 3, share = 3 / 4.0;
    for (const Program& program : programs) {
      // Devices 0 to 3 are the two parts of two replicas, and so are 4 to 7.
      CHECK(sent_to_experts(program).bytes == Approx(4 * layers * n * k * 2 * h * share));
      std::set<std::vector<DeviceId>> groups;
      for (const Transfer& transfer : program.transfers) {
        if (transfer.purpose == Purpose::Gradients) groups.insert(transfer.group);
      }
      const std::size_t own = program.device.index();
      std::vector<DeviceId> all;
      for (std::size_t d = 0; d < 8; ++d) all.emplace_back(d);
      CHECK(groups ==
            std::set<std::vector<DeviceId>>{all, {DeviceId(own % 4), DeviceId(own % 4 + 4)}});
    }
  }
}

TEST_CASE("rows that come to a device have room for all that can, and are played as expected") {
  const auto buffers = [](const std::string& choices) {
    const auto programs = expert_programs("dp=4,ep=4,microbatch=1," + choices, 4);
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> found;
    for (const Buffer& buffer : programs[0].buffers) {
      if (buffer.expected)
        found[std::string(buffer.name.text())] = {*buffer.expected, buffer.count};
    }
    return found.at("layers.0.ffn.experts.up");
  };
  const std::int64_t n = kExpertSequence, f = 12;
  // One expert a device: of four devices' tokens each may send one row.
  CHECK(buffers("imbalance=1") == std::pair(n * 2 * f, 4 * n * f));
  CHECK(buffers("imbalance=1.5") == std::pair(n * 2 * f * 3 / 2, 4 * n * f));
  // ceil(8 x 2 / 4 x 1.25) = 5 rows of each of four sequences.
  CHECK(buffers("capacity=1.25") == std::pair(n * 2 * f, 4 * 5 * f));
  CHECK(buffers("capacity=0.5") == std::pair(n * f, 4 * 2 * f));
}

TEST_CASE("counted rows leave for the devices of their experts and come back the same way") {
  // Two members, four experts: what each has for each expert.
  const std::vector<std::int64_t> counts = {1, 2, 3, 4, 5, 6, 7, 8};
  Transfer transfer{.kind = TransferKind::AllToAll, .group = {DeviceId(0), DeviceId(1)}};
  transfer.source = transfer.target = dense_operand({20, 3});
  transfer.rows = CountedRows{.counts = dense_operand({2, 4}, BufferElement::Index)};
  using Parts = std::vector<std::vector<ShardRange>>;
  const Transfer first = with_counts(transfer, counts, 0),
                 second = with_counts(transfer, counts, 1);
  CHECK(first.source_cut.parts == Parts{{{0, 3}}, {{3, 7}}});
  CHECK(first.target_cut.parts == Parts{{{0, 3}}, {{3, 11}}});
  CHECK(second.source_cut.parts == Parts{{{0, 11}}, {{11, 15}}});
  CHECK(second.target_cut.parts == Parts{{{0, 7}}, {{7, 15}}});
  CHECK(is_same_work(first, second));
  transfer.rows->returns = true;
  const Transfer back = with_counts(transfer, counts, 0);
  CHECK(back.source_cut.parts == first.target_cut.parts);
  CHECK(back.target_cut.parts == first.source_cut.parts);
  CHECK(!fault_of(transfer, DeviceId(1)));
  transfer.rows->counts = dense_operand({2, 3}, BufferElement::Index);
  CHECK(fault_of(transfer, DeviceId(1)) == "its counts are not one for each member and expert");
}

// A zigzag part has two pieces of a sequence; what all of them chose is E numbers each.
TEST_CASE("with a capacity parts of a sequence tell each other what their pieces chose") {
  const auto gathered = [](const std::string& choices) {
    std::int64_t count = 0;
    const Program program = expert_programs(choices, 4).front();
    for (const Task& task : program.tasks) {
      if (task.kind != TaskKind::Transfer) continue;
      const Transfer& transfer = program.transfer(task);
      const bool counts =
          transfer.purpose == Purpose::Experts && transfer.kind == TransferKind::AllGather;
      if (counts) count += element_count(transfer);
    }
    return count;
  };
  constexpr std::int64_t kLayers = 3, kExperts = 4, kSamples = 4;
  for (const std::int64_t cp : {2, 4}) {
    const std::string ring = "microbatch=4,cp=" + std::to_string(cp);
    CHECK(gathered(ring) == 0);
    CHECK(gathered(ring + ",capacity=1") == kLayers * kSamples * 2 * cp * kExperts);
    CHECK(gathered(ring + ",capacity=1,context=rsa") == kLayers * kSamples * cp * kExperts);
  }
}

TEST_CASE("ways to share experts out that cannot be are refused in words") {
  CHECK(problem_of("dp=8,ep=8") == "ep=8: it does not divide the 4 experts");
  CHECK(problem_of("dp=2,ep=4,microbatch=4") == "ep=4: etp x ep = 4 does not divide dp x tp = 2");
  CHECK(problem_of("dp=2,tp=2,etp=1") ==
        "etp=1: below tp=2 it needs sequence_parallel=true, or devices of tp have the same tokens");
  CHECK(problem_of("dp=2,tp=2,etp=1,sequence_parallel=true,capacity=1") == "");
  CHECK(problem_of("tp=2,etp=3") == "etp=3: it does not divide tp=2");
  CHECK(problem_of("dp=8,shard=4,ep=2,zero=1") == "");
  CHECK(problem_of("cp=4,ep=2") ==
        "ep=2: etp x ep = 2 ends within what shares a sequence out (tp x cp = 4)");
  CHECK(problem_of("cp=4,ulysses=2,ep=2") == "");
  CHECK(problem_of("dp=2,cp=2,ep=4,capacity=1") == "");
  const Model dense = small_model({});
  const auto problems = check_choices(parse_plan_choices("dp=2,ep=2,capacity=1"),
                                      {8, kExpertSequence, Precision::BF16}, dense, test_cluster());
  CHECK(problems == std::vector<std::string>{"ep=2: the model has no experts",
                                             "capacity=1: the model has no experts"});
}

}  // namespace meshwright
