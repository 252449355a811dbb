#include "executor/benchmark/items.h"

#include <fmt/format.h>

namespace meshwright {
namespace {

using Sizes = std::vector<std::int64_t>;
using K = KernelKind;
using P = KernelPart;

// Sizes of a grid: all of them, or for a quick look the first, the last and what is between in
// larger steps.
struct Grid {
  Sizes quick, full;
  const Sizes& of(const BenchmarkScope& scope) const { return scope.quick ? quick : full; }
};

const Grid kRows{{32, 256, 2048}, {16, 64, 256, 1024, 4096}};
const Grid kColumns{{64, 512, 4096}, {64, 256, 1024, 4096, 16384}};
const Grid kVocabulary{{256, 4096, 65536}, {256, 1024, 4096, 16384, 65536}};
const Grid kElements{{1 << 8, 1 << 14, 1 << 19, 1 << 23},
                     {1 << 8, 1 << 11, 1 << 14, 1 << 17, 1 << 20, 1 << 23, 1 << 25}};
const Grid kHeads{{1, 8, 64}, {1, 4, 16, 64, 256}};
const Grid kSequence{{32, 128, 512}, {16, 64, 256, 1024, 4096}};
const Grid kBytes{{1 << 6, 1 << 12, 1 << 18, 1 << 24},
                  {1 << 6, 1 << 9, 1 << 12, 1 << 15, 1 << 18, 1 << 21, 1 << 24, 1 << 27}};

// Larger ones would take too long or too much memory.
constexpr double kQuickFlops = 2e9, kFullFlops = 4e10;
constexpr double kQuickBytes = 1 << 28, kFullBytes = 1 << 30;

class ItemList {
 public:
  explicit ItemList(const BenchmarkScope& scope) : scope_(scope) {}

  // All combinations of sizes, the last running fastest.
  void add(const KernelClass& kernel, const std::vector<Sizes>& axes) {
    for (const Precision precision : scope_.precisions) {
      Sizes shape;
      add_shapes(kernel, precision, axes, shape);
    }
  }
  void add(const BenchmarkItem& item) { items_.push_back(item); }
  const Sizes& sizes(const Grid& grid) const { return grid.of(scope_); }
  std::vector<BenchmarkItem> take() { return std::move(items_); }

 private:
  void add_shapes(const KernelClass& kernel, Precision precision, const std::vector<Sizes>& axes,
                  Sizes& shape) {
    if (shape.size() == axes.size()) return add_one({{kernel, shape}, precision});
    for (const std::int64_t size : axes[shape.size()]) {
      shape.push_back(size);
      add_shapes(kernel, precision, axes, shape);
      shape.pop_back();
    }
  }
  void add_one(const KernelItem& item) {
    const auto kernel = kernel_with(item.shaped);
    if (!kernel) return;
    const auto flops = static_cast<double>(flops_of(*kernel).value());
    const auto bytes = static_cast<double>(bytes_of(*kernel, item.precision).value());
    if (flops > (scope_.quick ? kQuickFlops : kFullFlops)) return;
    if (bytes > (scope_.quick ? kQuickBytes : kFullBytes)) return;
    items_.push_back(item);
  }

  const BenchmarkScope& scope_;
  std::vector<BenchmarkItem> items_;
};

void add_products(ItemList& list) {
  for (const P part : {P::Forward, P::InputGradient, P::WeightGradient}) {
    list.add({K::Matmul, part, ""},
             {list.sizes(kRows), list.sizes(kVocabulary), list.sizes(kColumns)});
  }
  // Below the smallest vocabulary, down to what a head or a shard has.
  for (const P part : {P::Forward, P::InputGradient, P::WeightGradient}) {
    list.add({K::Matmul, part, ""}, {list.sizes(kRows), {16, 64}, list.sizes(kColumns)});
  }
}

void add_attention(ItemList& list, bool quick) {
  std::vector<std::string> variants = {"causal 32", "causal 32 dropout", "causal 64",
                                       "causal 64 dropout", "causal 16"};
  if (!quick) variants.insert(variants.end(), {"causal 128", "full 64"});
  for (const std::string& variant : variants) {
    for (const P part : {P::Forward, P::InputGradient}) {
      list.add({K::Attention, part, variant}, {list.sizes(kHeads), list.sizes(kSequence)});
    }
  }
}

void add_row_kernels(ItemList& list) {
  for (const K kind : {K::LayerNorm, K::RmsNorm}) {
    for (const P part : {P::Forward, P::InputGradient, P::WeightGradient}) {
      list.add({kind, part, ""}, {list.sizes(kRows), list.sizes(kColumns)});
    }
  }
  list.add({K::LossLargest, P::Forward, ""}, {list.sizes(kRows), list.sizes(kVocabulary)});
  list.add({K::LossSums, P::Forward, ""}, {list.sizes(kRows), list.sizes(kVocabulary)});
  list.add({K::Loss, P::InputGradient, ""}, {list.sizes(kRows), list.sizes(kVocabulary)});
  list.add({K::Loss, P::Forward, ""}, {list.sizes(kRows)});
  list.add({K::Embedding, P::Forward, ""}, {list.sizes(kRows), list.sizes(kColumns)});
  for (const char* variant : {"accumulate", ""}) {
    list.add({K::Embedding, P::WeightGradient, variant},
             {list.sizes(kRows), list.sizes(kColumns), list.sizes(kVocabulary)});
  }
  for (const P part : {P::Forward, P::InputGradient}) {
    list.add({K::Rope, part, ""}, {list.sizes(kRows), list.sizes(kHeads), {16, 128}});
  }
}

void add_elementwise(ItemList& list) {
  const Sizes& elements = list.sizes(kElements);
  for (const P part : {P::Forward, P::InputGradient}) {
    for (const char* function : {"gelu", "gelu_tanh", "silu", "relu"}) {
      list.add({K::Activation, part, function}, {elements});
    }
    for (const char* function : {"silu", "gelu_tanh"}) {
      list.add({K::GatedActivation, part, function}, {elements});
    }
    list.add({K::Scale, part, ""}, {elements});
    list.add({K::Dropout, part, ""}, {elements});
  }
  list.add({K::Add, P::Forward, ""}, {elements});
  list.add({K::Add, P::Forward, "strided"}, {elements});
  list.add({K::Sum, P::InputGradient, ""}, {elements});
}

void add_step_kernels(ItemList& list) {
  const Sizes& elements = list.sizes(kElements);
  list.add({K::AdamW, P::Step, ""}, {elements});
  list.add({K::NormLargest, P::Step, ""}, {elements});
  list.add({K::NormSums, P::Step, ""}, {elements});
  list.add({K::ClipFactor, P::Step, ""}, {{1}});
}

void add_transfers(ItemList& list, std::int64_t devices) {
  for (std::int64_t members = 2; members <= devices; ++members) {
    for (const TransferKind kind :
         {TransferKind::AllReduce, TransferKind::AllGather, TransferKind::ReduceScatter,
          TransferKind::AllToAll, TransferKind::Broadcast}) {
      for (const std::int64_t bytes : list.sizes(kBytes)) {
        // Whole elements of 4 bytes in equal parts.
        const std::int64_t parts = 4 * members;
        list.add(TransferItem{kind, members, Bytes((bytes + parts - 1) / parts * parts)});
      }
    }
  }
  if (devices < 2) return;
  for (const std::int64_t bytes : list.sizes(kBytes)) {
    list.add(TransferItem{TransferKind::Send, 2, Bytes(bytes)});
  }
}

}  // namespace

std::string to_text(const BenchmarkItem& item) {
  if (const auto* kernel = std::get_if<KernelItem>(&item)) {
    const KernelClass& what = kernel->shaped.kernel;
    std::string text =
        fmt::format("{} {}{}{} {}", to_text(what.kind), to_text(what.part),
                    what.variant.empty() ? "" : " ", what.variant, to_text(kernel->precision));
    for (std::size_t i = 0; i < kernel->shaped.shape.size(); ++i) {
      text += fmt::format("{}{}", i == 0 ? " " : "x", kernel->shaped.shape[i]);
    }
    return text;
  }
  if (const auto* transfer = std::get_if<TransferItem>(&item)) {
    return fmt::format("{} among {} of {}", to_text(transfer->kind), transfer->devices,
                       to_text(transfer->bytes));
  }
  const auto& link = std::get<LinkItem>(item);
  return fmt::format("link {} - {}", link.a, link.b);
}

std::vector<BenchmarkItem> benchmark_items(const BenchmarkScope& scope) {
  ItemList list(scope);
  for (std::int64_t a = 0; a < scope.devices; ++a) {
    for (std::int64_t b = a + 1; b < scope.devices; ++b) list.add(LinkItem{a, b});
  }
  add_products(list);
  add_transfers(list, scope.devices);
  add_attention(list, scope.quick);
  add_step_kernels(list);
  add_elementwise(list);
  add_row_kernels(list);
  return list.take();
}

}  // namespace meshwright
