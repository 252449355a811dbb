#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/standin/communicators.h"
#include "tests/standin/numbers.h"

namespace meshwright::standin {
namespace {

using Arrivals = std::map<int, NcclGroupState::Arrival>;

std::optional<Number> number_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
      return Number::Double;
    case ncclFloat32:
      return Number::Float;
    case ncclFloat16:
      return Number::Half;
    case ncclBfloat16:
      return Number::Bfloat;
    case ncclInt32:
      return Number::Int32;
    default:
      return {};
  }
}

double reduced(ncclRedOp_t reduction, double a, double b) {
  switch (reduction) {
    case ncclProd:
      return a * b;
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return a + b;
  }
}

// Rounded after every rank, as on the way along a ring; in which order they are added is NCCL's.
void reduce_reals(Number number, ncclRedOp_t reduction, const std::vector<const char*>& from,
                  std::size_t count, char* to) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    double value = read_number(number, from[0], at);
    for (std::size_t k = 1; k < from.size(); ++k) {
      value = rounded_to(number, reduced(reduction, value, read_number(number, from[k], at)));
    }
    if (reduction == ncclAvg) value /= static_cast<double>(from.size());
    write_number(number, to, at, value);
  }
}

template <class Whole>
void reduce_whole(ncclRedOp_t reduction, const std::vector<const char*>& from, std::size_t count,
                  char* to) {
  for (std::size_t i = 0; i < count; ++i) {
    Whole value = reinterpret_cast<const Whole*>(from[0])[i];
    for (std::size_t k = 1; k < from.size(); ++k) {
      const Whole other = reinterpret_cast<const Whole*>(from[k])[i];
      if (reduction == ncclMax) {
        value = std::max(value, other);
      } else if (reduction == ncclMin) {
        value = std::min(value, other);
      } else {
        value = static_cast<Whole>(value + other);
      }
    }
    reinterpret_cast<Whole*>(to)[i] = value;
  }
}

std::vector<char> reduce(Machine& machine, const Arrivals& arrived, std::size_t count) {
  const Part& first = arrived.begin()->second.part;
  std::vector<const char*> from;
  for (const auto& [rank, arrival] : arrived) {
    from.push_back(static_cast<const char*>(arrival.part.from));
  }
  for (std::size_t i = from.size(); i > 1; --i) std::swap(from[i - 1], from[machine.draw() % i]);
  std::vector<char> result(count * bytes_of(first.type));
  if (const auto number = number_of(first.type)) {
    reduce_reals(*number, first.reduction, from, count, result.data());
  } else if (first.type == ncclUint64 || first.type == ncclInt64) {
    reduce_whole<std::uint64_t>(first.reduction, from, count, result.data());
  } else {
    reduce_whole<std::uint8_t>(first.reduction, from, count, result.data());
  }
  return result;
}

// What every rank has, one after the other.
std::vector<char> gather(const Arrivals& arrived, std::size_t bytes) {
  std::vector<char> all;
  for (const auto& [rank, arrival] : arrived) {
    const auto* const from = static_cast<const char*>(arrival.part.from);
    all.insert(all.end(), from, from + bytes);
  }
  return all;
}

void copy_to(const Part& part, const char* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(part.to, from, bytes);
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

void run_collective(Machine& machine, const NcclGroupState& group, const Arrivals& arrived) {
  const Part& first = arrived.begin()->second.part;
  const std::size_t bytes = first.count * bytes_of(first.type);
  const std::size_t ranks = group.members.size();
  std::vector<char> data;
  if (first.kind == PartKind::ReduceScatter) {
    data = reduce(machine, arrived, first.count * ranks);
  } else if (first.kind == PartKind::AllGather) {
    data = gather(arrived, bytes);
  } else if (first.kind == PartKind::Broadcast) {
    const auto* const from = static_cast<const char*>(arrived.at(first.other).part.from);
    data.assign(from, from + bytes);
  } else {
    data = reduce(machine, arrived, first.count);
  }
  for (const auto& [rank, arrival] : arrived) {
    if (first.kind == PartKind::ReduceScatter) {
      copy_to(arrival.part, data.data() + static_cast<std::size_t>(rank) * bytes, bytes);
    } else if (first.kind != PartKind::Reduce || rank == first.other) {
      copy_to(arrival.part, data.data(), data.size());
    }
  }
}

}  // namespace meshwright::standin
