#include <algorithm>

#include "costmodel/base/checked.h"
#include "executor/math.h"
#include "tests/executor/hand_programs.h"
#include "tests/executor/random_transfers.h"
#include "tests/test_scale.h"

// Words of programs that no plan is lowered to yet, in programs written by hand. Each is checked,
// laid out, played and run, and its results are compared with plain arithmetic.
namespace meshwright {

TEST_CASE("programs with collectives of any cut and stride give what they are defined to give",
          "[threads]") {
  for (int seed = 0; seed < cases(40, 800); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    const std::size_t members = 1 + static_cast<std::size_t>(seed) % 5;
    GroupTransfer all = random_collective(random, first_devices(members));
    fill_buffers(random, all);
    CAPTURE(transfer_text(all.transfers[0]), all.in_place);
    std::vector<Program> programs;
    for (std::size_t m = 0; m < members; ++m) {
      HandProgram program(m, Precision::FP32);
      const auto tensor = [&](const char* what, std::vector<float>& values) {
        const std::string name = numbered(what, m);
        for (std::size_t i = 0; i < values.size(); ++i) {
          values[i] = static_cast<float>(start_value(name, static_cast<std::int64_t>(i)));
        }
        return program.tensor(name, static_cast<std::int64_t>(values.size()));
      };
      const BufferId source = tensor("source", all.source[m]);
      const BufferId target = all.in_place ? source : tensor("target", all.target[m]);
      program.transfer(all.transfers[m], {source, target});
      programs.push_back(program.take());
    }
    const auto tensors = run_hand_programs(programs);
    const auto expected = plain_result(all);
    for (std::size_t m = 0; m < members; ++m) {
      const auto& result = tensors.at(numbered(all.in_place ? "source" : "target", m));
      CHECK(result == std::vector<double>(expected[m].begin(), expected[m].end()));  // to the bit
    }
  }
}

namespace {

// y = x w on q x q devices: device (i, j) has blocks (i, j) of all three. In round t the block of x
// in column t goes along each row, and the block of w in row t along each column.
Program summa_program(std::int64_t q, std::int64_t i, std::int64_t j, const Sizes& block) {
  const auto device = [&](std::int64_t row, std::int64_t column) {
    return DeviceId(static_cast<std::size_t>(row * q + column));
  };
  HandProgram program(device(i, j).index(), Precision::FP64);
  const auto [m, k, n] = std::tuple(block[0], block[1], block[2]);
  const std::size_t self = device(i, j).index();
  const BufferId x = program.tensor(numbered("x", self), m * k),
                 w = program.tensor(numbered("w", self), k * n),
                 bias = program.tensor(numbered("bias", static_cast<std::size_t>(j)), n),
                 y = program.tensor(numbered("y", self), m * n);
  for (std::int64_t t = 0; t < q; ++t) {
    // Whoever has the block stands first.
    const auto pass = [&](BufferId own, const Sizes& sizes, auto member, std::int64_t first) {
      const BufferId came = program.buffer("came", checked_product(sizes));
      Transfer broadcast{.kind = TransferKind::Broadcast,
                         .source = dense_operand(sizes),
                         .target = dense_operand(sizes)};
      for (std::int64_t r = 0; r < q; ++r) broadcast.group.push_back(member((first + r) % q));
      program.transfer(broadcast, {own, came});
      return came;
    };
    const BufferId xt = pass(
        x, {m, k}, [&](std::int64_t r) { return device(i, r); }, t);
    const BufferId wt = pass(
        w, {k, n}, [&](std::int64_t r) { return device(r, j); }, t);
    std::vector<HandProgram::Used> reads = {{xt, dense_operand({m, k})},
                                            {wt, dense_operand({k, n})}};
    if (t == 1) reads.emplace_back(bias, dense_operand({n}));
    program.kernel({.kind = KernelKind::Matmul, .name = "y", .accumulate = t > 0}, reads,
                   {{y, dense_operand({m, n})}});
  }
  return program.take();
}

}  // namespace

TEST_CASE("a product in rounds of broadcasts adds up to the whole product", "[threads]") {
  for (const std::int64_t q : {2, 3}) {
    CAPTURE(q);
    const Sizes block = {3, 4, 5};
    std::vector<Program> programs;
    for (std::int64_t d = 0; d < q * q; ++d) {
      programs.push_back(summa_program(q, d / q, d % q, block));
    }
    const auto tensors = run_hand_programs(programs);
    for (std::int64_t i = 0; i < q; ++i) {
      for (std::int64_t j = 0; j < q; ++j) {
        std::vector<double> y;
        for (std::int64_t row = 0; row < block[0]; ++row) {
          for (std::int64_t column = 0; column < block[2]; ++column) {
            double sum = start_value(numbered("bias", static_cast<std::size_t>(j)), column);
            for (std::int64_t t = 0; t < q; ++t) {
              const std::string x = numbered("x", static_cast<std::size_t>(i * q + t)),
                                w = numbered("w", static_cast<std::size_t>(t * q + j));
              for (std::int64_t c = 0; c < block[1]; ++c) {
                sum += start_value(x, row * block[1] + c) * start_value(w, c * block[2] + column);
              }
            }
            y.push_back(sum);
          }
        }
        check_near(tensors.at(numbered("y", static_cast<std::size_t>(i * q + j))), y);
      }
    }
  }
}

namespace {

constexpr std::int64_t kHeads = 2, kSize = 4, kRows = 2, kTokens = 7;

// Tokens, their entries of a table, turned and thinned out: of some places of the sequence. What
// all devices have is gathered into one tensor.
Program placed_program(std::size_t device, const std::vector<std::vector<ShardRange>>& parts,
                       std::int64_t sequence) {
  const std::int64_t own = size_of(parts[device]);
  HandProgram program(device, Precision::FP64, {kRows, 0, kRows, sequence});
  const DimPlace batch{{{0, kRows}}, kRows}, places{parts[device], sequence};
  const std::vector<DimPlace> place = {
      batch, places, {{{0, kHeads}}, kHeads}, {{{0, kSize}}, kSize}};
  const Operand tokens = dense_operand({kRows, own}, BufferElement::Index);
  const Operand x = dense_operand({kRows, own, kHeads, kSize});
  const std::int64_t count = element_count(x);
  const BufferId token = program.buffer("tokens", kRows * own, BufferElement::Index),
                 table = program.tensor("table", kTokens * kHeads * kSize),
                 found = program.buffer("x", count), turned = program.buffer("turned", count),
                 thinned = program.buffer("thinned", count);
  program.kernel({.kind = KernelKind::Load, .name = "tokens", .place = {batch, places}}, {},
                 {{token, tokens}});
  program.kernel({.kind = KernelKind::Embedding, .name = "x"},
                 {{token, dense_operand({kRows * own}, BufferElement::Index)},
                  {table, dense_operand({kTokens, kHeads * kSize})}},
                 {{found, dense_operand({kRows * own, kHeads * kSize})}});
  program.kernel({.kind = KernelKind::Rope,
                  .attributes = RopeAttributes{.theta = 50, .rotated = kSize, .scaling = ""},
                  .name = "turned",
                  .place = place},
                 {{found, x}}, {{turned, x}});
  program.kernel({.kind = KernelKind::Dropout,
                  .attributes = DropoutAttributes{0.4},
                  .name = "thinned",
                  .place = place},
                 {{turned, x}}, {{thinned, x}});
  for (const auto& [name, from] : {std::pair("turned", turned), std::pair("thinned", thinned)}) {
    const std::int64_t all = kRows * sequence * kHeads * kSize;
    program.transfer({.kind = TransferKind::AllGather,
                      .group = first_devices(parts.size()),
                      .source = x,
                      .target = dense_operand({kRows, sequence, kHeads, kSize}),
                      .target_cut = {.dim = 1, .parts = parts}},
                     {from, program.tensor(numbered(name, device), all)});
  }
  return program.take();
}

}  // namespace

TEST_CASE("loading, rope and dropout go by places in the whole sequence", "[threads]") {
  const auto run = [](const std::vector<std::vector<ShardRange>>& parts, std::int64_t sequence) {
    std::vector<Program> programs;
    for (std::size_t d = 0; d < parts.size(); ++d) {
      programs.push_back(placed_program(d, parts, sequence));
    }
    return run_hand_programs(programs, {.seed = 4}, kTokens);
  };
  for (int seed = 0; seed < cases(12, 200); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto piece = static_cast<std::int64_t>(1 + random() % 3);
    const std::size_t devices = 1 + random() % 4;
    const std::int64_t sequence = 2 * piece * static_cast<std::int64_t>(devices);
    const auto parts =
        seed % 2 == 0 ? zigzag_parts(piece, devices) : random_parts(random, sequence, devices);
    const auto whole = run({{{0, sequence}}}, sequence);
    const auto cut = run(parts, sequence);
    for (std::size_t d = 0; d < devices; ++d) {
      CHECK(cut.at(numbered("turned", d)) == whole.at("turned0"));  // to the bit
      CHECK(cut.at(numbered("thinned", d)) == whole.at("thinned0"));
    }
    // Row 1: token t of the sequence turns entry c against c + 2 by t / 50^(c / 2).
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequence));
    RandomTokens(3, kTokens).read_row("tokens", 0, 1, tokens);
    for (std::int64_t t = 0; t < sequence; ++t) {
      const std::int64_t entry = tokens[static_cast<std::size_t>(t)] * kHeads * kSize;
      const double angle = static_cast<double>(t), slow = angle / std::sqrt(50.0);
      const auto x = [&](std::int64_t c) { return start_value("table", entry + c); };
      const auto first = static_cast<std::size_t>((sequence + t) * kHeads * kSize);
      const auto& turned = whole.at("turned0");
      CHECK(turned[first] == Approx(x(0) * std::cos(angle) - x(2) * std::sin(angle)).margin(1e-12));
      CHECK(turned[first + 3] ==
            Approx(x(3) * std::cos(slow) + x(1) * std::sin(slow)).margin(1e-12));
    }
  }
}

}  // namespace meshwright
