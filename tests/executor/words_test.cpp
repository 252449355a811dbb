#include <algorithm>
#include <numeric>

#include "executor/math.h"
#include "tests/executor/hand_programs.h"
#include "tests/executor/random_transfers.h"
#include "tests/test_scale.h"

// Words of programs that no plan is lowered to yet, in programs written by hand. Each is checked,
// laid out, played and run, and its results are compared with plain arithmetic.
namespace meshwright {
namespace {

std::vector<DeviceId> first_devices(std::size_t count) {
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < count; ++d) devices.emplace_back(d);
  return devices;
}

std::string numbered(const char* what, std::size_t device) { return what + std::to_string(device); }

std::int64_t count_of(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

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
      const BufferId came = program.buffer("came", count_of(sizes));
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

// Self-attention of [batch, sequence, heads, size] by its definition, with its gradients.
struct PlainAttention {
  Sizes sizes;
  AttentionAttributes attributes;
  std::vector<double> q, k, v, dy;
  std::vector<double> y, dq, dk, dv;

  void run() {
    const Operand dense = dense_operand(sizes);
    y = dq = dk = dv = std::vector<double>(q.size());
    for (std::int64_t b = 0; b < sizes[0]; ++b) {
      for (std::int64_t h = 0; h < sizes[2]; ++h) {
        for (std::int64_t i = 0; i < sizes[1]; ++i) add_query(dense, b, h, i);
      }
    }
  }

  void add_query(const Operand& dense, std::int64_t b, std::int64_t h, std::int64_t i) {
    const auto place = [&](std::int64_t s, std::int64_t c) { return at(dense, {b, s, h, c}); };
    const std::int64_t seen = attributes.causal ? i + 1 : sizes[1];
    std::vector<double> share, slope;
    double sum = 0, mean = 0;
    for (std::int64_t j = 0; j < seen; ++j) {
      double score = 0, turned = 0;
      for (std::int64_t c = 0; c < sizes[3]; ++c) {
        score += q[place(i, c)] * k[place(j, c)];
        turned += dy[place(i, c)] * v[place(j, c)];
      }
      share.push_back(std::exp(attributes.scale * score));
      slope.push_back(turned);
      sum += share.back();
    }
    for (std::size_t j = 0; j < share.size(); ++j) mean += (share[j] /= sum) * slope[j];
    for (std::int64_t j = 0; j < seen; ++j) {
      const double p = share[static_cast<std::size_t>(j)];
      const double ds = attributes.scale * p * (slope[static_cast<std::size_t>(j)] - mean);
      for (std::int64_t c = 0; c < sizes[3]; ++c) {
        y[place(i, c)] += p * v[place(j, c)];
        dv[place(j, c)] += p * dy[place(i, c)];
        dq[place(i, c)] += ds * k[place(j, c)];
        dk[place(j, c)] += ds * q[place(i, c)];
      }
    }
  }
};

struct RingCase {
  std::size_t devices = 2;
  Sizes sizes;  // of a device's own q, k, v
  std::vector<std::vector<ShardRange>> parts;
  AttentionAttributes attributes;

  std::int64_t whole() const { return sizes[1] * static_cast<std::int64_t>(devices); }
  std::vector<DimPlace> place(std::size_t queries, std::size_t keys) const {
    return {{{{0, sizes[0]}}, sizes[0]},
            {{{0, sizes[2]}}, sizes[2]},
            {parts[queries], whole()},
            {parts[keys], whole()}};
  }
};

// Keys and values pass from device to device, each meets the own queries; in the backward their
// gradients pass with them, until they are back. The others' come first: a query may see none.
Program ring_program(const RingCase& ring, std::size_t device) {
  HandProgram program(device, Precision::FP64);
  const Operand x = dense_operand(ring.sizes);
  const Operand lse = dense_operand({ring.sizes[0], ring.sizes[2], ring.sizes[1]});
  const std::size_t next = (device + 1) % ring.devices;
  const std::size_t previous = (device + ring.devices - 1) % ring.devices;
  const std::int64_t count = element_count(x);
  const auto tensor = [&](const char* what) {
    return HandProgram::Used(program.tensor(numbered(what, device), count), x);
  };
  const auto q = tensor("q"), k = tensor("k"), v = tensor("v"), dy = tensor("dy"), y = tensor("y"),
             dq = tensor("dq"), dk = tensor("dk"), dv = tensor("dv");
  const HandProgram::Used sums(program.buffer("lse", element_count(lse)), lse);
  const auto pass = [&](const HandProgram::Used& used) {
    const HandProgram::Used came(program.buffer("came", count), x);
    program.send(next, used.first, x);
    program.receive(previous, came.first, x);
    return came;
  };
  for (const bool forward : {true, false}) {
    auto keys = k, values = v, key_gradient = dk, value_gradient = dv;
    for (std::size_t round = 0; round < ring.devices; ++round) {
      keys = pass(keys);
      values = pass(values);
      if (round > 0 && !forward) {
        key_gradient = pass(key_gradient);
        value_gradient = pass(value_gradient);
      } else if (!forward) {
        key_gradient = {program.buffer("dk", count), x};
        value_gradient = {program.buffer("dv", count), x};
      }
      const std::size_t owner = (device + ring.devices - 1 - round) % ring.devices;
      Kernel kernel{.kind = KernelKind::Attention,
                    .part = forward ? KernelPart::Forward : KernelPart::InputGradient,
                    .attributes = ring.attributes,
                    .name = "attention",
                    .accumulate = round > 0,
                    .place = ring.place(device, owner)};
      if (forward) {
        program.kernel(kernel, {q, keys, values}, {y, sums});
        continue;
      }
      program.kernel(kernel, {q, keys, values, y, sums, dy}, {dq, key_gradient, value_gradient});
    }
    if (forward) continue;
    // The last to come were the own keys, with their gradients.
    for (const auto& [from, to] : {std::pair(key_gradient, dk), std::pair(value_gradient, dv)}) {
      program.kernel({.kind = KernelKind::Sum, .part = KernelPart::InputGradient, .name = "keep"},
                     {from}, {to});
    }
  }
  // The whole result, out of order of the sequence on each device, in order after the gather.
  Sizes all = ring.sizes;
  all[1] = ring.whole();
  program.transfer({.kind = TransferKind::AllGather,
                    .group = first_devices(ring.devices),
                    .source = x,
                    .target = dense_operand(all),
                    .target_cut = {.dim = 1, .parts = ring.parts}},
                   {y.first, program.tensor(numbered("whole y", device), count_of(all))});
  return program.take();
}

// A device's own tensors put together along the sequence.
std::vector<double> joined(const RingCase& ring,
                           const std::function<std::vector<double>(std::size_t)>& own) {
  Sizes all = ring.sizes;
  all[1] = ring.whole();
  std::vector<double> whole(static_cast<std::size_t>(count_of(all)));
  const Operand dense = dense_operand(all), part = dense_operand(ring.sizes);
  for (std::size_t d = 0; d < ring.devices; ++d) {
    const Sizes places = places_of(ring.parts[d]);
    const auto values = own(d);
    for_each_index(ring.sizes, [&](const Sizes& i) {
      whole[at(dense, with(i, 1, places[static_cast<std::size_t>(i[1])]))] = values[at(part, i)];
    });
  }
  return whole;
}

PlainAttention plain_attention(const RingCase& ring) {
  const auto start = [&](const char* what) {
    return joined(
        ring, [&](std::size_t d) { return start_values(numbered(what, d), count_of(ring.sizes)); });
  };
  PlainAttention plain{.sizes = ring.sizes, .attributes = ring.attributes};
  plain.sizes[1] = ring.whole();
  plain.q = start("q");
  plain.k = start("k");
  plain.v = start("v");
  plain.dy = start("dy");
  plain.run();
  return plain;
}

}  // namespace

TEST_CASE("attention over keys that come one after the other is attention over all", "[threads]") {
  for (int seed = 0; seed < cases(10, 150); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    RingCase ring{.devices = 2 + random() % 3};
    const auto piece = static_cast<std::int64_t>(1 + random() % (seed % 4 == 0 ? 80 : 5));
    ring.sizes = {static_cast<std::int64_t>(1 + random() % 2), 2 * piece,
                  static_cast<std::int64_t>(1 + random() % 2), 3};
    ring.attributes = {.causal = random() % 3 > 0, .scale = 0.8};
    ring.parts = zigzag_parts(piece, ring.devices);
    if (random() % 3 == 0) {
      for (std::size_t d = 0; d < ring.devices; ++d) {
        ring.parts[d] = {{static_cast<std::int64_t>(d) * 2 * piece, 2 * piece}};
      }
    }
    std::vector<Program> programs;
    for (std::size_t d = 0; d < ring.devices; ++d) programs.push_back(ring_program(ring, d));
    const auto tensors = run_hand_programs(programs);
    const PlainAttention plain = plain_attention(ring);
    const auto result = [&](const char* what) {
      return joined(ring, [&](std::size_t d) { return tensors.at(numbered(what, d)); });
    };
    check_near(tensors.at("whole y0"), plain.y, 1e-11);
    check_near(result("y"), plain.y, 1e-11);
    check_near(result("dq"), plain.dq, 1e-11);
    check_near(result("dk"), plain.dk, 1e-11);
    check_near(result("dv"), plain.dv, 1e-11);
  }
}

TEST_CASE("attention by heads, between exchanges with a cut sequence, is attention", "[threads]") {
  for (const std::size_t devices : {2, 3}) {
    CAPTURE(devices);
    const auto n = static_cast<std::int64_t>(devices);
    RingCase whole{.devices = devices,
                   .sizes = {2, 4, n, 3},
                   .parts = zigzag_parts(2, devices),
                   .attributes = {.causal = true, .scale = 0.5}};
    const Sizes by_heads = {2, 4 * n, 1, 3};
    std::vector<Program> programs;
    for (std::size_t d = 0; d < devices; ++d) {
      HandProgram program(d, Precision::FP64);
      const Operand cut = dense_operand(whole.sizes), heads = dense_operand(by_heads);
      const Cut sequence{.dim = 1, .parts = whole.parts}, equal{.dim = 2};
      std::vector<HandProgram::Used> reads;
      for (const char* what : {"q", "k", "v"}) {
        const BufferId came = program.buffer(what, element_count(heads));
        program.transfer({.kind = TransferKind::AllToAll,
                          .group = first_devices(devices),
                          .source = cut,
                          .target = heads,
                          .source_cut = equal,
                          .target_cut = sequence},
                         {program.tensor(numbered(what, d), element_count(cut)), came});
        reads.emplace_back(came, heads);
      }
      program.tensor(numbered("dy", d), element_count(cut));
      const BufferId y = program.buffer("y", element_count(heads));
      const Operand lse = dense_operand({2, 1, 4 * n});
      program.kernel({.kind = KernelKind::Attention,
                      .attributes = whole.attributes,
                      .name = "attention",
                      .place = {{{{0, 2}}, 2},
                                {{{static_cast<std::int64_t>(d), 1}}, n},
                                {{{0, 4 * n}}, 4 * n},
                                {{{0, 4 * n}}, 4 * n}}},
                     reads, {{y, heads}, {program.tensor(numbered("lse", d), 8 * n), lse}});
      program.transfer({.kind = TransferKind::AllToAll,
                        .group = first_devices(devices),
                        .source = heads,
                        .target = cut,
                        .source_cut = sequence,
                        .target_cut = equal},
                       {y, program.tensor(numbered("y", d), element_count(cut))});
      programs.push_back(program.take());
    }
    const auto tensors = run_hand_programs(programs);
    const auto y = joined(whole, [&](std::size_t d) { return tensors.at(numbered("y", d)); });
    check_near(y, plain_attention(whole).y, 1e-12);
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
