#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "costmodel/kernel/transfer.h"

namespace meshwright {

// A part of an operand, as a tensor without gaps.
struct TransferPiece {
  std::vector<std::pair<Operand, Operand>> copies;  // of the operand, and of the tensor
  std::int64_t count = 0;                           // elements
  std::optional<std::int64_t> direct;  // the buffer's element from which on it lies there anyway
};

// A transfer as one member gives it to a library that moves tensors without gaps, parts of equal
// size side by side: what does not lie so goes through memory beside the operands.
struct TransferPieces {
  std::vector<TransferPiece> given, taken;  // whole, or by place in the group where it is cut
  std::int64_t most = 0;                    // of all pieces of what is cut, the largest
  bool equal = true;                        // those pieces are; smaller ones are padded otherwise
  std::int64_t staged = 0;                  // elements of memory beside the operands
};
TransferPieces transfer_pieces(const Transfer& transfer, std::size_t place);

}  // namespace meshwright
