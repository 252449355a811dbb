#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/precision.h"
#include "costmodel/base/short_vector.h"
#include "costmodel/base/units.h"
#include "costmodel/kernel/shard_range.h"
#include "costmodel/model/op.h"

namespace meshwright {

// What a buffer holds: numbers of the run's precision, 32-bit indices, doubles for sums that must
// not depend on how work is split, fp32 where the run's precision is too coarse, or bytes that only
// their kernel understands.
enum class BufferElement { Real, Index, Double, Single, Byte };
Bytes bytes_per_element(BufferElement element, Precision precision);

enum class Phase { Forward, InputGradient, WeightGradient, Step };
inline constexpr std::size_t kPhases = 4;

// What a kernel computes, with its operands in order: those it reads, then those it writes.
// `addend?` is an operand of the result's shape that is added to it, there when
// Kernel::has_addend is set. `+` marks phases that take Kernel::accumulate: what they write is
// added to what its operand holds, and replaces it otherwise. An attention that accumulates has its
// keys beside those that y and lse stand for already, as if it had had all of them at once; its
// gradients are added, with y and lse of all keys. `?` marks what may be missing.
//
// kind         phase           reads                              writes
// Load         Forward         -                                  y, the input Kernel::name
// Embedding    Forward         index [n], table [rows, f]         y [n, f], 0 for other rows
//              WeightGradient+ index [n], dy [n, f]               dtable [rows, f]
// RowSums      Forward         x [n, f]                           sums [n, 2], Doubles: of x, and
//                                                                 of its squares
//              InputGradient   x, gain, mean?, scale, dy          sums [n, 2], Doubles: of
//                                                                 gain dy, and of that times the
//                                                                 normalized x
// LayerNorm    Forward         x [n, f], gain [f], bias [f],      y [n, f], mean [n], scale [n]
//                              sums?
//              InputGradient   x, gain, mean, scale, dy, sums?,   dx
//                              addend?
//              WeightGradient+ x, mean, scale, dy                 dgain [f], dbias [f]
// RmsNorm      Forward         x [n, f], gain [f], sums?          y [n, f], scale [n]
//              InputGradient   x, gain, scale, dy, sums?, addend? dx
//              WeightGradient+ x, scale, dy                       dgain [f]
// Matmul       Forward+        x [m, k], weight [k, n], bias [n]? y [m, n]
//              InputGradient   weight, dy, addend?                dx
//              WeightGradient+ x, dy                              dweight [k, n], dbias [n]?
// Rope         Forward         x [b, s, .., d]                    y
//              InputGradient   dy, addend?                        dx
// Attention    Forward+        q, k, v [b, s, h, d]               y [b, s, h, d], lse [b, h, s]
//              InputGradient+  q, k, v, y, lse, dy                dq, dk, dv
// Activation   Forward         x                                  y
//              InputGradient   x, dy, addend?                     dx
// GatedActivation Forward      gate, x                            y
//              InputGradient   gate, x, dy                        dgate, dx
// Scale        Forward         x                                  y
//              InputGradient   dy, addend?                        dx
// Dropout      Forward         x                                  y
//              InputGradient   dy, addend?                        dx
// Add          Forward         a, b                               y
// Router       Forward         logits [b, s, e], bias [e]?        share [b, s, c], expert [b, s, c]
//              InputGradient   logits, expert, dshare, addend?    dlogits
//              WeightGradient+ expert                             dbias [e]: by how much more than
//                                                                 an equal share chose each
// RouterCounts Forward         expert                             counts [b, p, e], Indices: of p
//                                                                 equal pieces of s
// RouterRoom   Forward         expert, counts                     expert, less than has no room
// BalanceSums  Forward         logits, expert                     sums [b, 2, e], Doubles: choices
//                                                                 and shares of all scores
// Balance      Forward         sums                               loss [1], a Double, accumulates
//              InputGradient   logits, sums, addend?              dlogits
// ExpertOrder  Forward         expert [n, c]                      place [n, c], counts [e]
// Dispatch     Forward         x [n, f], place                    y [r, f]
//              InputGradient   place, dy, addend?                 dx
// SortRows     Forward         x [r, f], counts [m, e]            y
//              InputGradient   dy, counts                         dx
// ExpertMatmul Forward         x [r, k], weight [e, k, n], counts y [r, n]
//              InputGradient   weight, dy, counts, addend?        dx
//              WeightGradient+ x, dy, counts                      dweight
// Combine      Forward         x [r, f], share [n, c], place      y [n, f]
//              InputGradient   x?, share, place, dy               dx, dshare
// Sum          InputGradient+  dy, addend?                        dx
// LossLargest  Forward         logits [n, v]                      largest [n]
// LossSums     Forward         logits, label [n], largest         sums [n, 2]: of exp(x - largest),
//                                                                 and the label's logit or 0
// Loss         Forward         label, largest, sums               loss [1], a Double, accumulates
//              InputGradient   logits, label, largest, sums       dlogits
// NormLargest  Step            gradients [n]...                   largest [1], a Double
// NormSums     Step            gradients [n]..., largest          sums [2], Doubles
// ClipFactor   Step            sums                               factor [2], Doubles: what
//                                                                 gradients are scaled by, the
//                                                                 norm; finite [1]?: 0 or 1
// AdamW        Step            gradient [n], factor               weight [n], m [n], v [n],
//                                                                 master [n]?
//
// Rows of experts are ordered by expert, then by where they came from. A token that an expert has
// no room for has that expert's complement (~) for its choice, and no place (-1). counts [m, e] has
// for each sender of rows how many it has for each of the experts; SortRows turns rows by sender,
// then expert, into rows by expert, then sender, and back.
//
// What a router's bias has for a gradient is whole numbers by a power of 2, so that its sign does
// not depend on how tokens are cut; AdamW moves it by that sign alone.
//
// A norm has `sums` where rows are longer than the f columns it has of them: those of RowSums over
// whole rows, whose length is Kernel::place. A label below 0 does not count. Add repeats an operand
// along a dimension where its stride is 0; Sum adds up along a dimension where the stride of dx is
// 0. An op on rows takes all dimensions but the last for rows. AdamW reads what it writes, and so
// does whatever accumulates.
enum class KernelKind {
  Load,
  Embedding,
  RowSums,
  LayerNorm,
  RmsNorm,
  Matmul,
  Rope,
  Attention,
  Activation,
  GatedActivation,
  Scale,
  Dropout,
  Add,
  Router,
  RouterCounts,
  RouterRoom,
  BalanceSums,
  Balance,
  ExpertOrder,
  Dispatch,
  SortRows,
  ExpertMatmul,
  Combine,
  Sum,
  LossLargest,
  LossSums,
  Loss,
  NormLargest,
  NormSums,
  ClipFactor,
  AdamW,
};
std::string_view to_text(KernelKind kind);
std::string_view to_text(Phase phase);

// One number for each dimension.
using Extents = ShortVector<std::int64_t, 6>;

// Part of a buffer, in elements. A weight that is stored [n, k] is a [k, n] with strides 1, k.
struct Operand {
  std::int64_t offset = 0;
  Extents sizes;
  Extents strides;
  BufferElement element = BufferElement::Real;
  bool written = false;
  // How many entries the first dimension has is counted when it runs: its size says how many are
  // expected, and its buffer has room for all that can come.
  bool counted = false;
  friend bool operator==(const Operand&, const Operand&) = default;
};
std::int64_t element_count(const Operand& operand);
// Row-major, without gaps.
Operand dense_operand(const Extents& sizes, BufferElement element = BufferElement::Real,
                      std::int64_t offset = 0);
bool is_dense(const Operand& operand);  // but for its element and offset like one of these

// Where a shard stands along a dimension of its tensor. Masks, angles and random numbers go by
// places in the whole tensor, so they do not depend on how it is cut.
struct DimPlace {
  std::vector<ShardRange> ranges;  // that the shard has, ascending: two where it is zigzag
  std::int64_t size = 0;           // of the whole tensor
  friend bool operator==(const DimPlace&, const DimPlace&) = default;
};

// Elements of an operand that is a vector: what NormLargest, NormSums and AdamW work on, which take
// the same elements of all operands that AdamW has. What is left out is padding or counted by
// another device. A kernel still passes over all of its operands: so it takes as long on every
// device that has as many elements, whichever these are.
struct OperandRange {
  std::size_t operand = 0;
  std::int64_t first = 0, count = 0;
  bool decay = false;  // AdamW: whether these weights decay
  // AdamW: how far these move against the sign of their gradient, which is all that moves them;
  // none: as AdamW has it.
  std::optional<double> sign_rate = {};
  friend bool operator==(const OperandRange&, const OperandRange&) = default;
};

struct Kernel {
  KernelKind kind = KernelKind::Add;
  Phase phase = Phase::Forward;
  std::vector<Operand> operands;
  OpAttributes attributes;  // of the op: Norm, Rope, Attention, Function, Scale, Dropout, Router
  std::string name;         // of the op, or of the input for Load
  bool has_addend = false;
  bool accumulate = false;
  std::int64_t first_row = 0;  // of the table or vocabulary that the device holds
  // Router, RouterRoom: tokens of a sequence that an expert has room for, by position; none: any
  // number. Where devices have parts of a sequence, RouterRoom has the counts of all its pieces.
  std::optional<std::int64_t> capacity = {};
  // The operand whose entries add up to the rows of those that are counted.
  std::optional<std::size_t> counts = {};
  std::vector<OperandRange> ranges;
  // Load: of y. Dropout, Rope: of x. RouterRoom, Router's WeightGradient, Balance's InputGradient:
  // of the first operand. Balance's Forward: batch and sequence, of which it adds that part of the
  // loss. LayerNorm, RmsNorm: of x, where rows are cut. Attention: batch, heads, queries, keys; the
  // first two in one range. Where the first dimension starts is known when the micro-batch is.
  std::vector<DimPlace> place;
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

// Pairs of a query and a key, at these places of one sequence, that an attention's mask shows.
std::int64_t seen_pairs(const std::vector<ShardRange>& queries, const std::vector<ShardRange>& keys,
                        const AttentionAttributes& attributes);

// Multiply-adds of matrix products, two operations each; attention over the full square of queries
// and keys, whose backward computes the scores again.
Flops flops_of(const Kernel& kernel);
// The same, of attention only the pairs that its mask shows.
Flops seen_flops_of(const Kernel& kernel);
// Of an attention's pairs of queries and keys, the share that its mask shows.
double seen_share_of(const Kernel& kernel);
// What is computed: attention in blocks skips what its mask hides; attention that keeps its scores
// does not, and need not compute them again.
Flops executed_flops_of(const Kernel& kernel);
// Every operand read or written once, and what a product or an attention merges with read too. The
// gradients and sums that accumulate over micro-batches are not: prices were fitted without.
Bytes bytes_of(const Kernel& kernel, Precision precision);

}  // namespace meshwright
