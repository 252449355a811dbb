#include "costmodel/kernel/transfer.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/base/checked.h"

namespace meshwright {
namespace {

// The dimension with every part as large as the largest.
void pad(Extents& sizes, const Cut& cut) {
  if (cut.parts.empty() || cut.dim >= sizes.size()) return;
  std::int64_t largest = 0;
  for (const auto& part : cut.parts) largest = std::max(largest, size_of(part));
  sizes[cut.dim] = checked_multiply(largest, static_cast<std::int64_t>(cut.parts.size()));
}

bool moves_dimension(const Transfer& transfer) {
  return transfer.kind == TransferKind::AllToAll &&
         transfer.source_cut.dim != transfer.target_cut.dim;
}

std::string sizes_text(const Extents& sizes) { return fmt::format("[{}]", fmt::join(sizes, ",")); }

// What is wrong with a member's transfer, fault by fault: the first one is named.
class TransferFaults {
 public:
  TransferFaults(const Transfer& transfer, DeviceId device) : t_(transfer) {
    const auto place = std::ranges::find(t_.group, device);
    place_ = static_cast<std::size_t>(place - t_.group.begin());
    if (place == t_.group.end()) fault_ = fmt::format("device {} is not in it", device.index());
  }

  std::optional<std::string> find() {
    if (!fault_) check_operands();
    if (!fault_ && t_.rows) {
      check_rows();
      return fault_;
    }
    if (!fault_ && cuts_source(t_.kind)) check_cut(t_.source_cut, t_.source->sizes);
    if (!fault_ && cuts_target(t_.kind)) check_cut(t_.target_cut, t_.target->sizes);
    if (!fault_ && !is_pair(t_.kind)) check_shapes();
    return fault_;
  }

 private:
  void check_operands() {
    if (is_pair(t_.kind)) check_pair();
    if (t_.source.has_value() == (t_.kind == TransferKind::Receive)) {
      fault_ = t_.source ? "it has a source" : "it has no source";
    }
    if (t_.target.has_value() == (t_.kind == TransferKind::Send)) {
      fault_ = t_.target ? "it has a target" : "it has no target";
    }
    for (const auto* operand : {&t_.source, &t_.target}) {
      if (*operand && (*operand)->sizes.size() != (*operand)->strides.size()) {
        fault_ = "it has not one stride for each size";
      }
    }
    if (fault_ || is_pair(t_.kind)) return;
    if (t_.source->element != t_.target->element)
      fault_ = "source and target hold different kinds of numbers";
    if (t_.source->sizes.size() != t_.target->sizes.size()) {
      fault_ = "source and target have not the same dimensions";
    }
  }

  void check_rows() {
    const Extents& counts = t_.rows->counts.sizes;
    const auto members = static_cast<std::int64_t>(t_.group.size());
    if (t_.kind != TransferKind::AllToAll) {
      fault_ = "only an all-to-all counts its rows";
    } else if (t_.source->sizes.size() != 2 || t_.source->sizes[1] != t_.target->sizes[1]) {
      fault_ = "its source and target are not rows of one length";
    } else if (t_.rows->counts.element != BufferElement::Index || counts.size() != 2 ||
               counts[0] != members || counts[1] % members != 0) {
      fault_ = "its counts are not one for each member and expert";
    }
  }

  void check_pair() {
    if (t_.group.size() != 2 || t_.group[0] == t_.group[1]) {
      fault_ = "its group is not a pair";
    } else if ((place_ == 0) != (t_.kind == TransferKind::Send)) {
      fault_ = place_ == 0 ? "the sender receives" : "the receiver sends";
    }
  }

  void check_cut(const Cut& cut, const Extents& sizes) {
    const std::size_t members = t_.group.size();
    if (cut.dim >= sizes.size()) {
      fault_ = fmt::format("dimension {} is not there to be cut", cut.dim);
    } else if (cut.parts.empty()) {
      const bool even = sizes[cut.dim] % static_cast<std::int64_t>(members) == 0;
      if (!even) fault_ = "it has no equal parts";
    } else if (cut.parts.size() != members) {
      fault_ = fmt::format("it has {} parts for {} members", cut.parts.size(), members);
    } else if (!covers_once(cut, sizes[cut.dim])) {
      fault_ = fmt::format("its parts are not dimension {} once, in order", cut.dim);
    }
  }

  static bool covers_once(const Cut& cut, std::int64_t size) {
    std::vector<ShardRange> all;
    for (const auto& part : cut.parts) {
      if (!std::ranges::is_sorted(part)) return false;
      all.insert(all.end(), part.begin(), part.end());
    }
    std::ranges::sort(all);
    std::int64_t end = 0;
    for (const ShardRange& range : all) {
      if (range.start != end || range.size < 0) return false;
      end += range.size;
    }
    return end == size;
  }

  // The own operand that is a part has that part's size, and all else is the same.
  void check_shapes() {
    Extents source = whole_sizes(t_), target = source;
    if (t_.own_parts) {
      source[0] = t_.source->sizes[0];
      target[0] = t_.target->sizes[0];
    } else if (t_.kind == TransferKind::AllToAll && !moves_dimension(t_)) {
      if (!has_one_size(t_.source_cut) || !has_one_size(t_.target_cut)) {
        fault_ = "it exchanges parts of unequal size along one dimension";
      }
    } else {
      if (cuts_source(t_.kind)) cut_down(target, t_.source_cut);
      if (cuts_target(t_.kind)) cut_down(source, t_.target_cut);
    }
    if (!fault_ && (t_.source->sizes != source || t_.target->sizes != target)) {
      fault_ =
          fmt::format("it goes from {} to {} where {} to {} is meant", sizes_text(t_.source->sizes),
                      sizes_text(t_.target->sizes), sizes_text(source), sizes_text(target));
    }
  }

  static bool has_one_size(const Cut& cut) {
    return std::ranges::all_of(
        cut.parts, [&](const auto& part) { return size_of(part) == size_of(cut.parts[0]); });
  }

  void cut_down(Extents& sizes, const Cut& cut) const {
    sizes[cut.dim] = size_of(part_of(cut, sizes[cut.dim], place_, t_.group.size()));
  }

  const Transfer& t_;
  std::size_t place_ = 0;
  std::optional<std::string> fault_;
};

}  // namespace

std::string_view to_text(TransferKind kind) {
  switch (kind) {
    case TransferKind::AllReduce:
      return "all_reduce";
    case TransferKind::ReduceScatter:
      return "reduce_scatter";
    case TransferKind::AllGather:
      return "all_gather";
    case TransferKind::AllToAll:
      return "all_to_all";
    case TransferKind::Broadcast:
      return "broadcast";
    case TransferKind::Send:
      return "send";
    case TransferKind::Receive:
      return "receive";
  }
  return "";
}

std::string_view to_text(Purpose purpose) {
  switch (purpose) {
    case Purpose::Tensor:
      return "tensor";
    case Purpose::Context:
      return "context";
    case Purpose::Experts:
      return "experts";
    case Purpose::Pipeline:
      return "pipeline";
    case Purpose::Gradients:
      return "gradients";
    case Purpose::Weights:
      return "weights";
    case Purpose::Tied:
      return "tied";
    case Purpose::Norm:
      return "norm";
    case Purpose::Loss:
      return "loss";
  }
  return "";
}

double bytes_sent(TransferKind kind, Bytes whole, std::int64_t members) {
  const auto bytes = static_cast<double>(whole.value());
  const auto n = static_cast<double>(members);
  switch (kind) {
    case TransferKind::AllReduce:
      return 2 * bytes * (n - 1) / n;
    case TransferKind::ReduceScatter:
    case TransferKind::AllGather:
    case TransferKind::AllToAll:
      return bytes * (n - 1) / n;
    case TransferKind::Broadcast:
    case TransferKind::Send:
    case TransferKind::Receive:
      return bytes;
  }
  return 0;
}

double bytes_sent(const Transfer& transfer, Precision precision) {
  return bytes_sent(transfer.kind, bytes_of(transfer, precision),
                    static_cast<std::int64_t>(transfer.group.size()));
}

std::vector<ShardRange> part_of(const Cut& cut, std::int64_t size, std::size_t place,
                                std::size_t members) {
  if (!cut.parts.empty()) return cut.parts[place];
  const std::int64_t part = size / static_cast<std::int64_t>(members);
  return {{part * static_cast<std::int64_t>(place), part}};
}

BufferElement element_of(const Transfer& transfer) {
  if (transfer.source) return transfer.source->element;
  return transfer.target ? transfer.target->element : BufferElement::Real;
}

Extents whole_sizes(const Transfer& transfer) {
  const bool whole_target = !cuts_source(transfer.kind) && transfer.target;
  const auto& whole = whole_target ? transfer.target : transfer.source;
  if (!whole) return {0};
  Extents sizes = whole->sizes;
  const std::size_t gathered = transfer.target_cut.dim;
  if (transfer.kind == TransferKind::AllToAll && transfer.target && gathered < sizes.size() &&
      gathered < transfer.target->sizes.size()) {
    sizes[gathered] = transfer.target->sizes[gathered];
  }
  return sizes;
}

std::int64_t element_count(const Transfer& transfer) {
  Extents sizes = whole_sizes(transfer);
  if (cuts_source(transfer.kind)) pad(sizes, transfer.source_cut);
  if (cuts_target(transfer.kind)) pad(sizes, transfer.target_cut);
  // Both dimensions are whole here, and a member has one of them cut.
  const auto members = static_cast<std::int64_t>(transfer.group.size());
  return checked_product(sizes) /
         (moves_dimension(transfer) ? std::max<std::int64_t>(members, 1) : 1);
}

Bytes bytes_of(const Transfer& transfer, Precision precision) {
  return bytes_per_element(element_of(transfer), precision) * element_count(transfer);
}

Transfer with_counts(const Transfer& transfer, const std::vector<std::int64_t>& counts,
                     std::size_t place) {
  const std::size_t members = transfer.group.size(), experts = counts.size() / members;
  const auto between = [&](std::size_t from, std::size_t to) {
    std::int64_t rows = 0;
    for (std::size_t e = to * experts / members; e < (to + 1) * experts / members; ++e) {
      rows = checked_add(rows, counts[from * experts + e]);
    }
    return rows;
  };
  Transfer counted = transfer;
  counted.rows.reset();
  counted.own_parts = true;
  std::int64_t given = 0, taken = 0;
  for (std::size_t other = 0; other < members; ++other) {
    const std::int64_t out = between(place, other), in = between(other, place);
    const std::int64_t gives = transfer.rows->returns ? in : out;
    const std::int64_t takes = transfer.rows->returns ? out : in;
    counted.source_cut.parts.push_back({{given, gives}});
    counted.target_cut.parts.push_back({{taken, takes}});
    given += gives;
    taken += takes;
  }
  counted.source->sizes[0] = given;
  counted.target->sizes[0] = taken;
  return counted;
}

bool is_same_work(const Transfer& a, const Transfer& b) {
  if (is_pair(a.kind) || is_pair(b.kind)) {
    if (!is_pair(a.kind) || !is_pair(b.kind)) return false;
  } else if (a.kind != b.kind || a.reduction != b.reduction) {
    return false;
  }
  if (a.group != b.group || element_of(a) != element_of(b)) return false;
  if (a.rows || b.rows || a.own_parts || b.own_parts) {
    const auto is_way_back = [](const Transfer& t) { return t.rows && t.rows->returns; };
    return a.rows.has_value() == b.rows.has_value() && a.own_parts == b.own_parts &&
           is_way_back(a) == is_way_back(b) && a.source->sizes.back() == b.source->sizes.back();
  }
  return whole_sizes(a) == whole_sizes(b) &&
         (!cuts_source(a.kind) || a.source_cut == b.source_cut) &&
         (!cuts_target(a.kind) || a.target_cut == b.target_cut);
}

std::optional<std::string> fault_of(const Transfer& transfer, DeviceId device) {
  return TransferFaults(transfer, device).find();
}

std::string transfer_text(const Transfer& transfer) {
  std::string members;
  for (const DeviceId device : transfer.group) {
    members += fmt::format("{}{}", members.empty() ? "" : ",", device.index());
  }
  return fmt::format("{} {} of {} among [{}]", to_text(transfer.kind), to_text(transfer.purpose),
                     element_count(transfer), members);
}

}  // namespace meshwright
