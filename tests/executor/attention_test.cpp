#include <numeric>
#include <tuple>

#include "executor/math.h"
#include "executor/random.h"
#include "tests/contiguous_place.h"
#include "tests/executor/kernel_harness.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

struct AttentionCase {
  std::int64_t batch, queries, keys, heads, kv_heads, size;
  Kernel kernel;
  StepSettings settings{.seed = 5, .step = 2};
  std::int64_t batch_row = 3;
  TestOperand q, k, v, y, lse, dy, dq, dk, dv;

  AttentionCase(TestRandom& random, std::int64_t longest, std::int64_t largest_size,
                AttentionAttributes attributes)
      : batch(random.between(1, 2)),
        queries(random.between(1, longest)),
        keys(attributes.causal ? queries : random.between(1, longest)),
        heads(2 * random.between(1, 2)),
        kv_heads(random.chance() ? heads : heads / 2),
        size(random.between(1, largest_size)),
        kernel{.kind = KernelKind::Attention,
               .attributes = attributes,
               .name = "attention",
               .place = contiguous_place({batch, heads, queries, keys},
                                         {{0, 8}, {2, 8}, {0, queries}, {0, keys}})},
        q(random_real(random, {batch, queries, heads, size})),
        k(random_real(random, {batch, keys, kv_heads, size})),
        v(random_real(random, {batch, keys, kv_heads, size})),
        y(random_real(random, {batch, queries, heads, size})),
        lse(random_real(random, {batch, heads, queries})),
        dy(random_real(random, {batch, queries, heads, size})),
        dq(random_real(random, {batch, queries, heads, size})),
        dk(random_real(random, {batch, keys, kv_heads, size})),
        dv(random_real(random, {batch, keys, kv_heads, size})) {}

  template <class Real = double>
  void forward() {
    run_on<Real>(kernel, {&q, &k, &v, &y, &lse}, settings, batch_row);
  }
  template <class Real = double>
  void backward() {
    Kernel gradient = kernel;
    gradient.phase = Phase::InputGradient;
    run_on<Real>(gradient, {&q, &k, &v, &y, &lse, &dy, &dq, &dk, &dv}, settings, batch_row);
  }
};

AttentionAttributes random_attributes(TestRandom& random, std::int64_t longest) {
  AttentionAttributes attributes{.causal = random.chance(),
                                 .alibi = random.chance(),
                                 .scale = 0.7,
                                 .dropout = random.chance() ? 0.25 : 0.0};
  if (attributes.causal && random.chance()) attributes.window = random.between(1, longest);
  return attributes;
}

// The slopes of Press et al. 2022 for the heads of a case: 2^(-8 (h + 1) / n) for n a power of two.
double published_slope(const AttentionCase& c, std::int64_t head) {
  const auto global = static_cast<double>(c.kernel.place[1].ranges[0].start + head + 1);
  REQUIRE(c.kernel.place[1].size == 8);
  return std::pow(2.0, -global);
}

// The definition: softmax over all scores of a query, then dropout, then the sum of values.
std::vector<double> naive_attention(AttentionCase& c) {
  const auto& attributes = std::get<AttentionAttributes>(c.kernel.attributes);
  const RandomKey key = random_key(c.settings.seed, c.kernel.name, c.settings.step);
  const auto q = c.q.values(), k = c.k.values(), v = c.v.values();
  const auto at = [](const std::vector<double>& x, std::int64_t i) {
    return x[static_cast<std::size_t>(i)];
  };
  std::vector<double> y;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t i = 0; i < c.queries; ++i) {
      for (std::int64_t h = 0; h < c.heads; ++h) {
        const std::int64_t kv = h * c.kv_heads / c.heads;
        const std::int64_t seen = attributes.causal ? i + 1 : c.keys;
        std::vector<double> shares;
        for (std::int64_t j = 0; j < seen; ++j) {
          if (attributes.window && j + *attributes.window <= i) {
            shares.push_back(0);
            continue;
          }
          double score = 0;
          for (std::int64_t d = 0; d < c.size; ++d) {
            score += at(q, ((b * c.queries + i) * c.heads + h) * c.size + d) *
                     at(k, ((b * c.keys + j) * c.kv_heads + kv) * c.size + d);
          }
          const double slope = attributes.alibi ? published_slope(c, h) : 0;
          shares.push_back(std::exp(attributes.scale * score + slope * static_cast<double>(j - i)));
        }
        const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
        for (std::int64_t d = 0; d < c.size; ++d) {
          double value = 0;
          for (std::int64_t j = 0; j < seen; ++j) {
            const std::int64_t row = c.batch_row + b, head = c.kernel.place[1].ranges[0].start + h;
            const std::int64_t place =
                ((row * c.kernel.place[1].size + head) * c.queries + i) * c.keys + j;
            value += shares[static_cast<std::size_t>(j)] / sum *
                     dropout_factor(key, static_cast<std::uint64_t>(place), attributes.dropout) *
                     at(v, ((b * c.keys + j) * c.kv_heads + kv) * c.size + d);
          }
          y.push_back(value);
        }
      }
    }
  }
  return y;
}

}  // namespace

TEST_CASE("blocked attention equals the definition") {
  for (int seed = 0; seed < cases(12, 80); ++seed) {
    CAPTURE(seed);
    TestRandom random(static_cast<unsigned>(seed));
    AttentionCase c(random, 150, 9, random_attributes(random, 150));
    c.forward();
    check_close(c.y.values(), naive_attention(c), 1e-12);
  }
}

TEST_CASE("attention gradients equal finite differences") {
  for (int seed = 0; seed < cases(8, 60); ++seed) {
    CAPTURE(seed);
    TestRandom random(static_cast<unsigned>(seed));
    AttentionCase c(random, 6, 4, random_attributes(random, 6));
    const auto value = [&] {
      c.forward();
      return dot(c.y.values(), c.dy.values());
    };
    value();
    c.backward();
    const auto dq = c.dq.values(), dk = c.dk.values(), dv = c.dv.values();
    check_close(dq, differences(c.q, value), 1e-9);
    check_close(dk, differences(c.k, value), 1e-9);
    check_close(dv, differences(c.v, value), 1e-9);
  }
}

TEST_CASE("attention gradients equal finite differences along a direction over many tiles") {
  for (int seed = 0; seed < cases(4, 20); ++seed) {
    CAPTURE(seed);
    TestRandom random(static_cast<unsigned>(seed));
    AttentionCase c(random, 200, 5, random_attributes(random, 200));
    c.forward();
    c.backward();
    for (TestOperand* x : {&c.q, &c.k, &c.v}) {
      const auto gradient = (x == &c.q ? c.dq : x == &c.k ? c.dk : c.dv).values();
      std::vector<double> direction, middle = x->values();
      for (std::size_t i = 0; i < middle.size(); ++i) direction.push_back(random.number());
      TestOperand distance = doubles({0});
      const auto slope = differences(distance, [&] {
        std::vector<double> moved = middle;
        for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += distance.at(0) * direction[i];
        x->set(moved);
        c.forward();
        return dot(c.y.values(), c.dy.values());
      });
      x->set(middle);
      CHECK(slope[0] == Approx(dot(gradient, direction)).epsilon(1e-8).margin(1e-8));
    }
  }
}

TEST_CASE("attention of a piece of the queries is that piece of attention") {
  TestRandom random(4);
  AttentionCase c(random, 100, 8,
                  {.causal = true, .alibi = true, .window = 9, .scale = 0.5, .dropout = 0.2});
  c.forward();
  AttentionCase piece = c;
  const std::int64_t first = c.queries / 3;
  for (TestOperand* o : {&piece.q, &piece.y}) {
    o->operand.offset += first * o->operand.strides[1];
    o->operand.sizes[1] -= first;
  }
  piece.lse.operand.offset += first * piece.lse.operand.strides[2];
  piece.lse.operand.sizes[2] -= first;
  piece.kernel.place[2].ranges = {{first, c.queries - first}};
  const auto expected = piece.y.values();
  piece.forward();
  check_close(piece.y.values(), expected, 1e-13);
}

TEST_CASE("queries, keys and values may lie side by side in one buffer") {
  TestRandom random(6);
  AttentionCase c(random, 80, 8, {.causal = true});
  c.kv_heads = c.heads;
  const Sizes sizes = {c.batch, c.queries, c.heads, c.size};
  c.k = c.v = c.dk = c.dv = random_real(random, sizes);
  AttentionCase packed = c;
  const std::int64_t row = c.heads * c.size;
  // As one [batch, sequence, 3, heads, size].
  const auto piece = [&](std::int64_t which) {
    Operand operand = dense_operand(sizes, BufferElement::Real, which * row);
    operand.strides = {3 * row * c.queries, 3 * row, c.size, 1};
    return in_buffer(operand);
  };
  for (const auto& [from, to, which] :
       {std::tuple{&c.q, &packed.q, 0}, {&c.k, &packed.k, 1}, {&c.v, &packed.v, 2}}) {
    *to = piece(which);
    to->set(from->values());
  }
  packed.dq = piece(0);
  packed.dk = piece(1);
  packed.dv = piece(2);
  c.forward();
  c.backward();
  packed.forward();
  packed.backward();
  CHECK(packed.y.values() == c.y.values());
  CHECK(packed.dq.values() == c.dq.values());
  CHECK(packed.dk.values() == c.dk.values());
  CHECK(packed.dv.values() == c.dv.values());
}

TEST_CASE("ALiBi slopes are the published ones, also for heads that are no power of two") {
  // transformers' build_alibi_tensor for 6 heads: four of the series 2^(-2 h), then the first and
  // the third of 2^-h.
  const std::vector<double> expected = {0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125};
  for (std::int64_t h = 0; h < 6; ++h) {
    CHECK(alibi_slope(h, 6) == expected[static_cast<std::size_t>(h)]);
  }
  CHECK(alibi_slope(0, 1) == 0.00390625);
  CHECK(alibi_slope(15, 16) == 0.00390625);
}

TEST_CASE("a query that sees no key gets zeros") {
  TestRandom random(4);
  AttentionCase c(random, 20, 8, {.causal = true});
  c.kernel.place[3].ranges[0].start = c.queries;  // all keys come after all queries
  c.kernel.place[3].size = 2 * c.queries;
  c.forward();
  for (const double value : c.y.values()) CHECK(value == 0);
  for (const double value : c.lse.values()) {
    CHECK(value == -std::numeric_limits<double>::infinity());
  }
  c.backward();
  for (const double value : c.dk.values()) CHECK(value == 0);
}

TEST_CASE("attention in fp32 comes close to fp64") {
  for (int seed = 0; seed < cases(4, 30); ++seed) {
    CAPTURE(seed);
    TestRandom random(static_cast<unsigned>(seed));
    AttentionCase c(random, 150, 16, random_attributes(random, 150));
    AttentionCase single = c;
    c.forward();
    c.backward();
    single.forward<float>();
    single.backward<float>();
    check_close(single.y.values(), c.y.values(), 1e-5);
    check_close(single.dq.values(), c.dq.values(), 5e-5);
    check_close(single.dk.values(), c.dk.values(), 5e-5);
    check_close(single.dv.values(), c.dv.values(), 5e-5);
  }
}

}  // namespace meshwright
