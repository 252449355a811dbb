#include "executor/transfer_pieces.h"

#include <algorithm>

#include "executor/common_rows.h"
#include "executor/shared_stretch.h"

namespace meshwright {
namespace {

bool lies_dense(const Operand& operand) {
  std::int64_t step = 1;
  for (std::size_t d = operand.sizes.size(); d-- > 0;) {
    if (operand.sizes[d] != 1 && operand.strides[d] != step) return false;
    step *= operand.sizes[d];
  }
  return true;
}

TransferPiece whole_piece(const Operand& operand) {
  TransferPiece piece{.count = element_count(operand)};
  if (lies_dense(operand)) {
    piece.direct = operand.offset;
  } else {
    piece.copies.emplace_back(operand, dense_operand(operand.sizes, operand.element));
  }
  return piece;
}

TransferPiece piece_at(const Operand& operand, const Cut& cut, std::size_t place,
                       std::size_t members) {
  const auto ranges = part_of(cut, operand.sizes[cut.dim], place, members);
  Extents sizes = operand.sizes;
  sizes[cut.dim] = size_of(ranges);
  const Operand dense = dense_operand(sizes, operand.element);
  TransferPiece piece{.count = element_count(dense)};
  for (const SharedStretch& s : stretches(ranges, whole_of(ranges))) {
    piece.copies.emplace_back(narrowed(operand, cut.dim, s.from, s.size),
                              narrowed(dense, cut.dim, s.to, s.size));
  }
  if (piece.copies.size() == 1 && lies_dense(piece.copies[0].first)) {
    piece.direct = piece.copies[0].first.offset;
  }
  return piece;
}

std::vector<TransferPiece> pieces_of(const std::optional<Operand>& operand, const Cut& cut,
                                     bool is_cut, std::size_t members) {
  if (!operand) return {};
  if (!is_cut) return {whole_piece(*operand)};
  std::vector<TransferPiece> pieces;
  for (std::size_t place = 0; place < members; ++place) {
    pieces.push_back(piece_at(*operand, cut, place, members));
  }
  return pieces;
}

bool lie_side_by_side(const std::vector<TransferPiece>& pieces, std::int64_t size) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i) * size;
    if (!pieces[i].direct || *pieces[i].direct != *pieces[0].direct + place) return false;
  }
  return true;
}

std::int64_t gaps_of(const std::vector<TransferPiece>& pieces) {
  std::int64_t elements = 0;
  for (const TransferPiece& piece : pieces) elements += piece.direct ? 0 : piece.count;
  return elements;
}

// What is cut, side by side, and the whole beside it.
std::int64_t staged_with(const TransferPieces& all, const std::vector<TransferPiece>& cut,
                         const TransferPiece& whole) {
  if (all.most == 0) return 0;
  if (all.equal && whole.direct && lie_side_by_side(cut, all.most)) return 0;
  return all.most * (static_cast<std::int64_t>(cut.size()) + 1);
}

std::int64_t staged_by(const Transfer& transfer, const TransferPieces& all, std::size_t place) {
  switch (transfer.kind) {
    case TransferKind::AllReduce:
      return std::max(gaps_of(all.given), gaps_of(all.taken));
    case TransferKind::ReduceScatter:
      return staged_with(all, all.given, all.taken[0]);
    case TransferKind::AllGather:
      return staged_with(all, all.taken, all.given[0]);
    case TransferKind::AllToAll:
      return gaps_of(all.given) + gaps_of(all.taken);
    case TransferKind::Broadcast:
      return std::max(place == 0 ? gaps_of(all.given) : 0, gaps_of(all.taken));
    case TransferKind::Send:
      return 0;  // is copied in any case
    case TransferKind::Receive:
      return gaps_of(all.taken);
  }
  return 0;
}

}  // namespace

TransferPieces transfer_pieces(const Transfer& transfer, std::size_t place) {
  const std::size_t members = transfer.group.size();
  const bool from_parts = cuts_source(transfer.kind), to_parts = cuts_target(transfer.kind);
  TransferPieces all{.given = pieces_of(transfer.source, transfer.source_cut, from_parts, members),
                     .taken = pieces_of(transfer.target, transfer.target_cut, to_parts, members)};
  const auto& cut = from_parts ? all.given : all.taken;
  for (const TransferPiece& piece : cut) {
    all.most = std::max(all.most, piece.count);
    all.equal = all.equal && piece.count == cut[0].count;
  }
  all.staged = staged_by(transfer, all, place);
  return all;
}

}  // namespace meshwright
