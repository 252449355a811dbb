#include "executor/benchmark/items.h"

#include <fmt/format.h>

namespace meshwright {
namespace {

using Sizes = std::vector<std::int64_t>;
using K = KernelKind;
using P = Phase;

// Sizes of a grid: all of them, or for a quick look the first, the last and what is between in
// larger steps.
struct Grid {
  Sizes quick, full, gpu_quick, gpu_full;
  const Sizes& of(const BenchmarkScope& scope) const {
    if (scope.sizes == BenchmarkSizes::Gpu) return scope.quick ? gpu_quick : gpu_full;
    return scope.quick ? quick : full;
  }
};

const Grid kRows{{32, 256, 2048},
                 {16, 64, 256, 1024, 4096},
                 {256, 2048, 16384},
                 {256, 1024, 4096, 8192, 16384, 32768}};
const Grid kColumns{{64, 512, 4096},
                    {64, 256, 1024, 4096, 16384},
                    {512, 4096, 16384},
                    {512, 1024, 2048, 4096, 8192, 16384}};
// The other side of a product, or a vocabulary.
const Grid kVocabulary{{256, 4096, 65536},
                       {256, 1024, 4096, 16384, 65536},
                       {512, 8192, 131072},
                       {512, 1024, 2048, 4096, 8192, 16384, 32768, 131072}};
// Below the smallest of those, down to what a head or a shard has.
const Grid kNarrow{{16, 64}, {16, 64}, {128}, {128, 256}};
const Grid kElements{{1 << 8, 1 << 14, 1 << 19, 1 << 23},
                     {1 << 8, 1 << 11, 1 << 14, 1 << 17, 1 << 20, 1 << 23, 1 << 25},
                     {1 << 16, 1 << 22, 1 << 28},
                     {1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28}};
const Grid kHeads{{1, 8, 64}, {1, 4, 16, 64, 256}, {8, 64, 512}, {8, 16, 32, 64, 128, 512}};
const Grid kSequence{{32, 128, 512},
                     {16, 64, 256, 1024, 4096},
                     {512, 2048, 8192},
                     {512, 1024, 2048, 4096, 8192, 16384, 32768}};
const Grid kBytes{
    {1 << 6, 1 << 12, 1 << 18, 1 << 24},
    {1 << 6, 1 << 9, 1 << 12, 1 << 15, 1 << 18, 1 << 21, 1 << 24, 1 << 27},
    {1 << 6, 1 << 14, 1 << 20, 1 << 26},
    {1 << 6, 1 << 12, 1 << 15, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28, 1 << 30}};

// Larger ones would take too long or too much memory.
struct Limits {
  double flops, bytes;
};
Limits limits_of(const BenchmarkScope& scope) {
  if (scope.sizes == BenchmarkSizes::Gpu) return {scope.quick ? 2e12 : 2e13, 4e9};
  return scope.quick ? Limits{2e9, 1 << 28} : Limits{1e10, 1 << 29};
}

// The first, the last and every second one between.
bool is_coarse(const Sizes& sizes, std::size_t place) {
  return place % 2 == 0 || place + 1 == sizes.size();
}

class ItemList {
 public:
  explicit ItemList(const BenchmarkScope& scope) : scope_(scope) {}

  // A full list is made in two passes: a coarse grid of everything, then what is between, kernel by
  // kernel. Times are interpolated in cells of the grid, so wherever a budget ends the list, at
  // most one kernel is left with half a grid.
  void begin_second_pass() { second_ = true; }

  // All combinations of sizes, the last running fastest.
  void add(const KernelClass& kernel, const std::vector<Sizes>& axes) {
    for (const Precision precision : scope_.precisions) {
      // What is only there to check others need not be known as well.
      if (second_ && precision == Precision::FP64) continue;
      add_shapes({{kernel, {}}, precision}, axes, true);
    }
  }
  void add_transfers(TransferKind kind, std::int64_t devices, const Sizes& sizes) {
    // Whole elements of 4 bytes, in equal parts but for a Send.
    const std::int64_t parts = kind == TransferKind::Send ? 4 : 4 * devices;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (!is_of_pass(is_coarse(sizes, i))) continue;
      items_.emplace_back(
          TransferItem{kind, devices, Bytes((sizes[i] + parts - 1) / parts * parts)});
    }
  }
  void add(const BenchmarkItem& item) {
    if (!second_) items_.push_back(item);
  }
  const Sizes& sizes(const Grid& grid) const { return grid.of(scope_); }
  const BenchmarkScope& scope() const { return scope_; }
  std::vector<BenchmarkItem> take() { return std::move(items_); }

 private:
  bool is_of_pass(bool coarse) const { return scope_.quick ? !second_ : coarse != second_; }

  void add_shapes(KernelItem item, const std::vector<Sizes>& axes, bool coarse) {
    Sizes& shape = item.shaped.shape;
    if (shape.size() == axes.size()) {
      if (is_of_pass(coarse)) add_one(item);
      return;
    }
    const Sizes& sizes = axes[shape.size()];
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      shape.push_back(sizes[i]);
      add_shapes(item, axes, coarse && is_coarse(sizes, i));
      shape.pop_back();
    }
  }
  void add_one(const KernelItem& item) {
    const auto kernel = kernel_with(item.shaped);
    if (!kernel) return;
    const auto flops = static_cast<double>(flops_of(*kernel).value());
    const auto bytes = static_cast<double>(bytes_of(*kernel, item.precision).value());
    const Limits limits = limits_of(scope_);
    if (flops > limits.flops || bytes > limits.bytes) return;
    items_.push_back(item);
  }

  const BenchmarkScope& scope_;
  bool second_ = false;
  std::vector<BenchmarkItem> items_;
};

void add_products(ItemList& list) {
  for (const P phase : {P::Forward, P::InputGradient, P::WeightGradient}) {
    list.add({K::Matmul, phase, ""},
             {list.sizes(kRows), list.sizes(kVocabulary), list.sizes(kColumns)});
  }
  for (const P phase : {P::Forward, P::InputGradient, P::WeightGradient}) {
    list.add({K::Matmul, phase, ""},
             {list.sizes(kRows), list.sizes(kNarrow), list.sizes(kColumns)});
  }
}

void add_attention(ItemList& list) {
  std::vector<std::string> variants = {"causal 32", "causal 32 dropout", "causal 64",
                                       "causal 64 dropout", "causal 16"};
  if (!list.scope().quick) variants.insert(variants.end(), {"causal 128", "full 64"});
  if (list.scope().sizes == BenchmarkSizes::Gpu) {
    variants = {"causal 128", "causal 64"};
    if (!list.scope().quick) variants.insert(variants.end(), {"full 64", "causal 192+128"});
  }
  for (const std::string& variant : variants) {
    for (const P phase : {P::Forward, P::InputGradient}) {
      list.add({K::Attention, phase, variant}, {list.sizes(kHeads), list.sizes(kSequence)});
    }
  }
}

void add_row_kernels(ItemList& list) {
  for (const P phase : {P::Forward, P::InputGradient}) {
    list.add({K::RowSums, phase, ""}, {list.sizes(kRows), list.sizes(kColumns)});
  }
  for (const K kind : {K::LayerNorm, K::RmsNorm}) {
    for (const P phase : {P::Forward, P::InputGradient, P::WeightGradient}) {
      list.add({kind, phase, ""}, {list.sizes(kRows), list.sizes(kColumns)});
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
  for (const P phase : {P::Forward, P::InputGradient}) {
    list.add({K::Rope, phase, ""}, {list.sizes(kRows), list.sizes(kHeads), {16, 128}});
  }
}

void add_elementwise(ItemList& list) {
  const Sizes& elements = list.sizes(kElements);
  for (const P phase : {P::Forward, P::InputGradient}) {
    for (const char* function : {"gelu", "gelu_tanh", "silu", "relu"}) {
      list.add({K::Activation, phase, function}, {elements});
    }
    for (const char* function : {"silu", "gelu_tanh"}) {
      list.add({K::GatedActivation, phase, function}, {elements});
    }
    list.add({K::Scale, phase, ""}, {elements});
    list.add({K::Dropout, phase, ""}, {elements});
  }
  list.add({K::Add, P::Forward, "strided"}, {elements});
  list.add({K::Sum, P::InputGradient, ""}, {elements});
}

void add_step_kernels(ItemList& list) {
  const Sizes& elements = list.sizes(kElements);
  list.add({K::AdamW, P::Step, ""}, {elements});
  if (list.scope().sizes == BenchmarkSizes::Gpu)
    list.add({K::AdamW, P::Step, "master"}, {elements});
  list.add({K::NormLargest, P::Step, ""}, {elements});
  list.add({K::NormSums, P::Step, ""}, {elements});
  list.add({K::ClipFactor, P::Step, ""}, {{1}});
}

void add_transfers(ItemList& list) {
  for (std::int64_t members = 2; members <= list.scope().devices; ++members) {
    for (const TransferKind kind :
         {TransferKind::AllReduce, TransferKind::AllGather, TransferKind::ReduceScatter,
          TransferKind::AllToAll, TransferKind::Broadcast}) {
      list.add_transfers(kind, members, list.sizes(kBytes));
    }
  }
  if (list.scope().devices > 1) list.add_transfers(TransferKind::Send, 2, list.sizes(kBytes));
}

void add_links_and_copies(ItemList& list) {
  for (std::int64_t a = 0; a < list.scope().devices; ++a) {
    for (std::int64_t b = a + 1; b < list.scope().devices; ++b) list.add(LinkItem{a, b});
  }
  for (const CopyDirection direction : {CopyDirection::ToHost, CopyDirection::FromHost}) {
    list.add(CopyItem{direction});
  }
  list.add(CopyItem{});
}

void add_pass(ItemList& list) {
  add_links_and_copies(list);
  // With products and links, what a cluster is made of.
  list.add({K::Add, P::Forward, ""}, {list.sizes(kElements)});
  add_products(list);
  add_transfers(list);
  add_attention(list);
  add_step_kernels(list);
  add_elementwise(list);
  add_row_kernels(list);
}

}  // namespace

std::string to_text(const BenchmarkItem& item) {
  if (const auto* kernel = std::get_if<KernelItem>(&item)) {
    const KernelClass& what = kernel->shaped.kernel;
    std::string text =
        fmt::format("{} {}{}{} {}", to_text(what.kind), to_text(what.phase),
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
  if (const auto* link = std::get_if<LinkItem>(&item)) {
    return fmt::format("link {} - {}", link->a, link->b);
  }
  const auto& copy = std::get<CopyItem>(item);
  return fmt::format("copy {}", copy.direction ? to_text(*copy.direction) : "within the device");
}

std::vector<BenchmarkItem> benchmark_items(const BenchmarkScope& scope) {
  ItemList list(scope);
  add_pass(list);
  list.begin_second_pass();
  add_pass(list);
  return list.take();
}

}  // namespace meshwright
