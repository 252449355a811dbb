#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <vector>

#include "costmodel/kernel/transfer.h"

namespace meshwright {

using Sizes = Extents;

// A collective as all of its members see it, each with buffers of its own.
struct GroupTransfer {
  std::vector<Transfer> transfers;                 // by place in the group
  std::vector<std::vector<float>> source, target;  // buffers, by place
  bool in_place = false;                           // the target's buffer is the source's
};

// What a dimension is cut into by hand: single places dealt out at random, joined to ranges.
inline std::vector<std::vector<ShardRange>> random_parts(std::mt19937& random, std::int64_t size,
                                                         std::size_t members) {
  std::vector<std::vector<ShardRange>> parts(members);
  for (std::int64_t start = 0; start < size;) {
    const auto length = std::min<std::int64_t>(1 + random() % 4, size - start);
    auto& part = parts[random() % members];
    if (!part.empty() && part.back().start + part.back().size == start) {
      part.back().size += length;
    } else {
      part.push_back({start, length});
    }
    start += length;
  }
  return parts;
}

// Shards of a zigzag: members hold one piece from each end.
inline std::vector<std::vector<ShardRange>> zigzag_parts(std::int64_t piece, std::size_t members) {
  std::vector<std::vector<ShardRange>> parts;
  const auto n = static_cast<std::int64_t>(members);
  for (std::int64_t m = 0; m < n; ++m) {
    parts.push_back({{m * piece, piece}, {(2 * n - 1 - m) * piece, piece}});
  }
  return parts;
}

// An operand of these sizes with dimensions stored in any order and gaps between them.
inline Operand random_operand(std::mt19937& random, const Sizes& sizes) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  if (random() % 3 == 0) std::shuffle(order.begin(), order.end(), random);
  Operand operand{.offset = static_cast<std::int64_t>(random() % 5),
                  .sizes = sizes,
                  .strides = Sizes(sizes.size())};
  std::int64_t stride = random() % 4 == 0 ? 2 : 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    operand.strides[order[i]] = stride;
    stride = stride * std::max<std::int64_t>(sizes[order[i]], 1);
    if (random() % 3 == 0) stride += static_cast<std::int64_t>(random() % 3);
  }
  return operand;
}

inline std::size_t end_of(const Operand& operand) {
  std::int64_t end = operand.offset + 1;
  for (std::size_t d = 0; d < operand.sizes.size(); ++d) {
    end += std::max<std::int64_t>(operand.sizes[d] - 1, 0) * operand.strides[d];
  }
  return static_cast<std::size_t>(end);
}

// Places of a dimension that a member has, in order.
inline Sizes places_of(const std::vector<ShardRange>& ranges) {
  Sizes places;
  for (const ShardRange& range : ranges) {
    for (std::int64_t i = 0; i < range.size; ++i) places.push_back(range.start + i);
  }
  return places;
}

template <class Visit>
void for_each_index(const Sizes& sizes, Visit visit) {
  Sizes index(sizes.size());
  if (std::ranges::count(sizes, 0) > 0) return;
  for (;;) {
    visit(index);
    std::size_t d = sizes.size();
    while (d > 0 && ++index[d - 1] == sizes[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

inline std::size_t at(const Operand& operand, const Sizes& index) {
  std::int64_t offset = operand.offset;
  for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * operand.strides[d];
  return static_cast<std::size_t>(offset);
}

inline Sizes with(Sizes index, std::size_t dim, std::int64_t place) {
  index[dim] = place;
  return index;
}

inline Cut random_cut(std::mt19937& random, Sizes& sizes, std::size_t members) {
  Cut cut{.dim = random() % sizes.size()};
  const auto n = static_cast<std::int64_t>(members);
  const auto piece = static_cast<std::int64_t>(random() % 3);
  switch (random() % 3) {
    case 0:
      sizes[cut.dim] = n * piece;
      break;
    case 1:
      sizes[cut.dim] = 2 * n * piece;
      cut.parts = zigzag_parts(piece, members);
      break;
    default:
      cut.parts = random_parts(random, sizes[cut.dim], members);
  }
  return cut;
}

inline std::int64_t own_size(const Cut& cut, const Sizes& sizes, std::size_t place,
                             std::size_t members) {
  return size_of(part_of(cut, sizes[cut.dim], place, members));
}

inline GroupTransfer random_collective(std::mt19937& random, const std::vector<DeviceId>& group) {
  constexpr std::array kinds = {TransferKind::AllReduce, TransferKind::ReduceScatter,
                                TransferKind::AllGather, TransferKind::AllToAll,
                                TransferKind::Broadcast};
  const TransferKind kind = kinds[random() % kinds.size()];
  Sizes sizes(1 + random() % 3);
  for (std::int64_t& size : sizes) size = static_cast<std::int64_t>(1 + random() % 6);
  const std::size_t members = group.size();
  Cut out, in;
  if (cuts_source(kind)) out = random_cut(random, sizes, members);
  if (kind == TransferKind::AllGather) in = random_cut(random, sizes, members);
  if (kind == TransferKind::AllToAll) {
    Sizes other = sizes;
    in = random_cut(random, other, members);
    if (in.dim == out.dim) {  // parts of one size
      out = {.dim = in.dim};
      sizes[in.dim] = 2 * static_cast<std::int64_t>(members);
      in.parts = random() % 2 == 0 ? zigzag_parts(1, members) : decltype(in.parts){};
    } else {
      sizes = other;
    }
  }
  GroupTransfer all{.in_place = kind != TransferKind::AllToAll && random() % 2 == 0};
  const bool moves = kind == TransferKind::AllToAll && in.dim != out.dim;
  const auto reduction = random() % 2 == 0 ? Reduction::Sum : Reduction::Max;
  for (std::size_t m = 0; m < members; ++m) {
    Sizes source = sizes, target = sizes;
    if (kind == TransferKind::ReduceScatter || moves) {
      target[out.dim] = own_size(out, sizes, m, members);
    }
    if (kind == TransferKind::AllGather || moves) source[in.dim] = own_size(in, sizes, m, members);
    all.transfers.push_back({.kind = kind,
                             .reduction = reduction,
                             .group = group,
                             .source = random_operand(random, source),
                             .target = random_operand(random, target),
                             .source_cut = out,
                             .target_cut = in});
  }
  return all;
}

// Makes the operands of one member the same place, where that can be.
inline bool join_operands(Transfer& transfer, std::size_t place) {
  const bool scatters = transfer.kind == TransferKind::ReduceScatter;
  const bool gathers = transfer.kind == TransferKind::AllGather;
  Operand& whole = gathers ? *transfer.target : *transfer.source;
  Operand& own = gathers ? *transfer.source : *transfer.target;
  if (!scatters && !gathers) {
    own = whole;
    return true;
  }
  const Cut& cut = gathers ? transfer.target_cut : transfer.source_cut;
  const auto part = part_of(cut, whole.sizes[cut.dim], place, transfer.group.size());
  if (part.size() != 1) return false;
  own = whole;
  own.offset += part[0].start * whole.strides[cut.dim];
  own.sizes[cut.dim] = part[0].size;
  return true;
}

inline void fill_buffers(std::mt19937& random, GroupTransfer& all) {
  for (std::size_t m = 0; m < all.transfers.size(); ++m) {
    if (all.in_place && !join_operands(all.transfers[m], m)) all.in_place = false;
  }
  for (const Transfer& transfer : all.transfers) {
    const std::size_t size = std::max(end_of(*transfer.source), end_of(*transfer.target));
    for (auto* buffers : {&all.source, &all.target}) {
      auto& buffer = buffers->emplace_back(size);
      for (float& x : buffer) x = static_cast<float>(random() % 20001) / 7000.0f - 1.4f;
    }
  }
}

// What the kinds are defined to do, element by element: the targets' buffers afterwards.
inline std::vector<std::vector<float>> plain_result(const GroupTransfer& all) {
  auto result = all.in_place ? all.source : all.target;
  const std::size_t members = all.transfers.size();
  const Transfer& t = all.transfers[0];
  const auto source = [&](std::size_t m, const Sizes& index) {
    return all.source[m][at(*all.transfers[m].source, index)];
  };
  const auto target = [&](std::size_t m, const Sizes& index) -> float& {
    return result[m][at(*all.transfers[m].target, index)];
  };
  const auto reduced = [&](const Sizes& index) {
    float value = source(0, index);
    for (std::size_t m = 1; m < members; ++m) {
      const float x = source(m, index);
      value = t.reduction == Reduction::Sum ? value + x : std::max(value, x);
    }
    return value;
  };
  const Sizes whole = whole_sizes(t);
  const auto places = [&](const Cut& cut, std::size_t m) {
    return places_of(part_of(cut, whole[cut.dim], m, members));
  };
  const std::size_t out = t.source_cut.dim, in = t.target_cut.dim;
  for (std::size_t m = 0; m < members; ++m) {
    const Sizes& sizes = all.transfers[m].target->sizes;
    if (t.kind == TransferKind::AllReduce) {
      for_each_index(sizes, [&](const Sizes& i) { target(m, i) = reduced(i); });
    } else if (t.kind == TransferKind::Broadcast) {
      for_each_index(sizes, [&](const Sizes& i) { target(m, i) = source(0, i); });
    } else if (t.kind == TransferKind::ReduceScatter) {
      const Sizes mine = places(t.source_cut, m);
      for_each_index(sizes, [&](const Sizes& i) {
        target(m, i) = reduced(with(i, out, mine[static_cast<std::size_t>(i[out])]));
      });
    }
    for (std::size_t from = 0; from < members; ++from) {
      if (t.kind != TransferKind::AllGather && t.kind != TransferKind::AllToAll) break;
      const Sizes come = places(t.target_cut, from);
      if (t.kind == TransferKind::AllGather) {
        for_each_index(all.transfers[from].source->sizes, [&](const Sizes& i) {
          target(m, with(i, in, come[static_cast<std::size_t>(i[in])])) = source(from, i);
        });
        continue;
      }
      const Sizes go = places(t.source_cut, m);
      Sizes piece = whole;
      piece[out] = static_cast<std::int64_t>(go.size());
      piece[in] = static_cast<std::int64_t>(come.size());
      for_each_index(piece, [&](const Sizes& i) {
        target(m, with(i, in, come[static_cast<std::size_t>(i[in])])) =
            source(from, with(i, out, go[static_cast<std::size_t>(i[out])]));
      });
    }
  }
  return result;
}

}  // namespace meshwright
