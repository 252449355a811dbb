#include <catch2/catch.hpp>

#include "simulator/lowering/lower.h"
#include "simulator/program/arena.h"
#include "simulator/program/check_program.h"
#include "tests/simulator/small_models.h"
#include "tests/simulator/small_plans.h"

// What context parallelism moves, computes and keeps, in closed form. s sequence, b micro-batch,
// c devices that have a part of the sequence each, t tensor parallelism, a heads, g of keys and
// values, d their size.
namespace meshwright {
namespace {

constexpr std::int64_t kHeadsOfKeys = 4, kHeadsOfQueries = 8, kHeadSize = 4;
// Long enough for an exchange of heads to be cheaper than to bring everything together.
constexpr std::int64_t kSequence = 48 * 1024;

Model context_model(std::int64_t layers, const std::string& family = "llama") {
  SmallModel model{.family = family, .layers = layers};
  model.kv_heads = kHeadsOfKeys;
  model.queries_per_head = kHeadsOfQueries / kHeadsOfKeys;
  model.head_size = kHeadSize;
  model.positions = kSequence;
  return small_model(model);
}

std::vector<Program> context_programs(const std::string& choices, const Model& model,
                                      std::int64_t batch = 2) {
  const Plan plan = small_plan(choices, model, batch, kSequence);
  CHECK(check_plan(plan, model, test_cluster()) == std::vector<std::string>{});
  auto programs = lower_all(model, plan);
  CHECK(check_programs(programs) == std::vector<std::string>{});
  return programs;
}

std::int64_t moved(const Program& program, TransferKind kind) {
  std::int64_t count = 0;
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::Transfer) continue;
    const Transfer& transfer = program.transfer(task);
    const bool counts = transfer.kind == kind && transfer.purpose == Purpose::Context;
    if (counts) count += element_count(transfer);
  }
  return count;
}

// Of one layer, on every device.
void check_moved(const std::string& choices, TransferKind kind, std::int64_t elements) {
  CAPTURE(choices, to_text(kind));
  const auto three = context_programs(choices, context_model(3));
  const auto two = context_programs(choices, context_model(2));
  for (std::size_t d = 0; d < two.size(); ++d) {
    CHECK(moved(three[d], kind) - moved(two[d], kind) == elements);
  }
}

std::int64_t attention_flops(const Program& program) {
  std::int64_t flops = 0;
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::Kernel) continue;
    if (program.kernel(task).kind != KernelKind::Attention) continue;
    flops += seen_flops_of(program.kernel(task)).value();
  }
  return flops;
}

// What is there from before the first gradient until after it.
std::int64_t kept_elements(const Program& program) {
  std::size_t turn = 0;
  while (program.tasks[turn].kind == TaskKind::Transfer ||
         program.kernel(program.tasks[turn]).phase == Phase::Forward) {
    ++turn;
  }
  const auto lives = lifetimes_of(program);
  std::int64_t sum = 0;
  for (std::size_t b = 0; b < lives.size(); ++b) {
    if (program.buffers[b].persistent || !lives[b]) continue;
    if (lives[b]->first < turn && lives[b]->last >= turn) sum += program.buffers[b].count;
  }
  return sum;
}

std::int64_t kept_by_layer(const std::string& choices) {
  return kept_elements(context_programs(choices, context_model(3)).front()) -
         kept_elements(context_programs(choices, context_model(2)).front());
}

}  // namespace

// As Transformer Engine has it (context_parallel.py): c - 1 times forward; backward these again and
// as many times their gradients.
TEST_CASE(
    "a ring passes keys and values on c - 1 times, back again, and their gradients as often") {
  for (const std::int64_t t : {1, 2}) {
    for (const std::int64_t c : {2, 3, 4}) {
      const std::int64_t block = 2 * (kSequence / c) * 2 * kHeadsOfKeys / t * kHeadSize;
      const std::string degrees = "microbatch=2,tp=" + std::to_string(t) + ",cp=";
      check_moved(degrees + std::to_string(c), TransferKind::Send, 3 * (c - 1) * block);
      check_moved(degrees + std::to_string(c), TransferKind::Receive, 3 * (c - 1) * block);
      if (c != 4) continue;
      check_moved(degrees + "4,context=double-ring,inner_ring=2", TransferKind::Send, 9 * block);
    }
  }
}

TEST_CASE("what parts of a sequence tell each other is told apart from tensor parallelism") {
  const auto tensor_elements = [](const std::string& choices) {
    std::int64_t count = 0;
    const Program program = context_programs(choices, context_model(2)).front();
    for (const Task& task : program.tasks) {
      if (task.kind != TaskKind::Transfer) continue;
      const Transfer& transfer = program.transfer(task);
      if (transfer.purpose == Purpose::Tensor) count += element_count(transfer);
    }
    return count;
  };
  const std::int64_t whole = tensor_elements("microbatch=2,tp=2");
  REQUIRE(whole > 0);
  for (const std::string context : {"ring", "ulysses", "rsa"}) {
    CAPTURE(context);
    CHECK(tensor_elements("microbatch=2,cp=2,context=" + context) == 0);
    CHECK(tensor_elements("microbatch=2,tp=2,cp=2,context=" + context) == whole / 2);
  }
}

TEST_CASE("heads are exchanged four times forward and backward, and the result once more") {
  for (const std::int64_t t : {1, 2}) {
    for (const std::int64_t c : {2, 4}) {
      if (t * c > kHeadsOfKeys) continue;
      const std::int64_t tokens = 2 * kSequence / c;
      const std::int64_t one_way = tokens * kHeadSize * 2 * (kHeadsOfQueries + kHeadsOfKeys) / t;
      const std::int64_t again = tokens * kHeadSize * kHeadsOfQueries / t;
      const std::string choices =
          "microbatch=2,tp=" + std::to_string(t) + ",context=ulysses,cp=" + std::to_string(c);
      check_moved(choices, TransferKind::AllToAll, 2 * one_way + again);
      check_moved(choices, TransferKind::Send, 0);
    }
  }
}

// Of c devices c / g have each head of keys: queries are exchanged as ever, keys and values among
// those with other heads, and brought together by those with the same one. Back, these add up what
// each knows of their gradients.
TEST_CASE("where heads of keys are too few, devices that share queries out have the same ones") {
  for (const std::int64_t t : {1, 2}) {
    const std::int64_t c = 8 / t, tokens = 2 * kSequence / c;
    const std::int64_t keys = 2 * tokens * kHeadsOfKeys / t * kHeadSize;
    const std::string choices =
        "microbatch=2,tp=" + std::to_string(t) + ",context=ulysses,cp=" + std::to_string(c);
    check_moved(choices, TransferKind::AllGather, 2 * keys);
    check_moved(choices, TransferKind::Send, 0);
  }
}

TEST_CASE("heads within a ring are exchanged, and the ring passes a part of them on") {
  const std::int64_t tokens = 2 * kSequence / 4;
  const std::int64_t block = 2 * tokens * 2 * kHeadsOfKeys / 2 * kHeadSize;  // half of the heads
  check_moved("microbatch=2,cp=4,ulysses=2", TransferKind::Send, 3 * block);
  check_moved("microbatch=2,cp=4,ulysses=2", TransferKind::AllToAll,
              tokens * kHeadSize * (5 * kHeadsOfQueries + 4 * kHeadsOfKeys));
}

TEST_CASE(
    "ring self-attention brings all keys and values together twice and sums their gradients") {
  for (const std::int64_t c : {2, 3}) {
    const std::int64_t block = 2 * (kSequence / c) * 2 * kHeadsOfKeys * kHeadSize;
    const std::string choices = "microbatch=2,context=rsa,cp=" + std::to_string(c);
    check_moved(choices, TransferKind::Send, 2 * (c - 1) * block);
    check_moved(choices, TransferKind::AllReduce, c * block);
  }
}

TEST_CASE("every device of a causal ring computes the same, and together what one device would") {
  const Model model = context_model(2);
  const std::int64_t alone = attention_flops(context_programs("microbatch=2", model).front());
  for (const char* choices : {"cp=2", "cp=3", "cp=4", "cp=4,context=double-ring,inner_ring=2",
                              "cp=4,ulysses=2", "cp=4,context=ulysses"}) {
    CAPTURE(choices);
    const auto programs = context_programs(std::string("microbatch=2,") + choices, model);
    for (const Program& program : programs) {
      CHECK(attention_flops(program) * static_cast<std::int64_t>(programs.size()) == alone);
    }
  }
}

TEST_CASE("keys that a window hides from all queries of a device are not looked at") {
  SmallModel small{.family = "mistral", .layers = 2};
  small.window = kSequence / 12;
  const Model model = small_model(small);
  const std::int64_t alone = attention_flops(context_programs("microbatch=2", model).front());
  std::int64_t together = 0;
  for (const Program& program : context_programs("microbatch=2,cp=4", model)) {
    together += attention_flops(program);
    const auto forward = std::ranges::count_if(program.tasks, [&](const Task& task) {
      return task.kind == TaskKind::Kernel && !task.recompute &&
             program.kernel(task).kind == KernelKind::Attention &&
             program.kernel(task).phase == Phase::Forward;
    });
    CHECK(forward < 2 * 4);  // of two layers, with every part
  }
  CHECK(together == alone);
}

TEST_CASE("what a layer keeps falls as the sequence is cut") {
  const std::int64_t whole = kept_by_layer("microbatch=2");
  for (const char* choices : {"cp=2", "cp=3", "cp=4", "cp=4,context=double-ring,inner_ring=2",
                              "cp=4,ulysses=2", "cp=2,context=ulysses", "cp=4,context=ulysses"}) {
    CAPTURE(choices);
    const std::int64_t cp = choices[3] - '0';
    CHECK(kept_by_layer(std::string("microbatch=2,") + choices) * cp == whole);
  }
}

TEST_CASE("ZeRO shares state out among replicas and parts of the sequence alike") {
  const Model model = context_model(2);
  const auto optimizer = [](const Program& program) {
    std::int64_t count = 0;
    for (const Buffer& buffer : program.buffers) {
      if (buffer.component == Component::Optimizer) count += buffer.count;
    }
    return count;
  };
  const auto bucket = ",bucket=1 GiB,microbatch=1,zero=1";
  const std::int64_t six = optimizer(context_programs("dp=6" + std::string(bucket), model, 6)[0]);
  for (const char* choices : {"dp=2,cp=3", "dp=1,cp=6", "dp=3,cp=2,context=ulysses"}) {
    CAPTURE(choices);
    CHECK(optimizer(context_programs(choices + std::string(bucket), model, 6)[0]) == six);
  }
}

TEST_CASE("context parallelism that cannot be is refused with the reason") {
  const auto problems = [](const char* choices, std::int64_t sequence = 48) {
    const BatchChoice batch{.global_batch = 4, .sequence = sequence};
    return check_choices(parse_plan_choices(choices), batch, context_model(2), test_cluster());
  };
  using Problems = std::vector<std::string>;
  CHECK(problems("cp=4") == Problems{});
  CHECK(problems("context=ulysses") ==
        Problems{"context: cp=1 has no other part of the sequence to attend to"});
  CHECK(problems("cp=4", 12) == Problems{"cp=4: 2 x cp = 8 does not divide a sequence of 12"});
  CHECK(problems("cp=4,context=rsa", 12) == Problems{});
  CHECK(problems("cp=4,context=rsa", 10) ==
        Problems{"cp=4: cp = 4 does not divide a sequence of 10"});
  CHECK(problems("cp=3,tp=4,sequence_parallel=true", 36) ==
        Problems{"cp=3: 2 x cp x tp = 24 does not divide a sequence of 36"});
  CHECK(problems("cp=4,ulysses=3") == Problems{"ulysses=3: it does not divide cp=4"});
  CHECK(problems("cp=4,context=ulysses,ulysses=2") ==
        Problems{"ulysses=2: context=ulysses shares heads out among all cp=4"});
  // 8 heads of queries; of 4 of keys two devices have the same one.
  CHECK(problems("cp=4,tp=2,context=ulysses") == Problems{});
  CHECK(problems("cp=4,tp=4,context=ulysses") ==
        Problems{"4 kv_heads are too few to share out among tp=4 x 4 devices"});
  CHECK(problems("cp=6,context=ulysses") ==
        Problems{"4 kv_heads are too few to share out among tp=1 x 6 devices"});
  CHECK(problems("cp=4,context=double-ring") ==
        Problems{"context=double-ring: inner_ring must say how many devices a ring has"});
  CHECK(problems("cp=4,context=double-ring,inner_ring=4") ==
        Problems{"inner_ring=4: it does not cut a ring of 4 devices into rings"});
  CHECK(problems("cp=4,inner_ring=2") ==
        Problems{"inner_ring=2: only context=double-ring has rings in a ring"});
  CHECK_THROWS_WITH(parse_plan_choices("cp=2,context=star"),
                    "plan: context: expected ring, ulysses, double-ring or rsa, found \"star\"");
}

}  // namespace meshwright
