#include <cmath>

#include "costmodel/base/checked.h"
#include "executor/math.h"
#include "tests/executor/hand_programs.h"
#include "tests/executor/random_transfers.h"
#include "tests/test_scale.h"

// Attention over several devices that no plan is lowered to yet, in programs written by hand:
// compared with its definition.
namespace meshwright {
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
                    .phase = forward ? Phase::Forward : Phase::InputGradient,
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
      program.kernel({.kind = KernelKind::Sum, .phase = Phase::InputGradient, .name = "keep"},
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
                   {y.first, program.tensor(numbered("whole y", device), checked_product(all))});
  return program.take();
}

// A device's own tensors put together along the sequence.
std::vector<double> joined(const RingCase& ring,
                           const std::function<std::vector<double>(std::size_t)>& own) {
  Sizes all = ring.sizes;
  all[1] = ring.whole();
  std::vector<double> whole(static_cast<std::size_t>(checked_product(all)));
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
    return joined(ring, [&](std::size_t d) {
      return start_values(numbered(what, d), checked_product(ring.sizes));
    });
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

}  // namespace meshwright
