#include "simulator/program/group_orders.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "costmodel/base/hash.h"

namespace meshwright {
namespace {

std::string_view element_text(BufferElement element) {
  switch (element) {
    case BufferElement::Real:
      return "reals";
    case BufferElement::Index:
      return "indices";
    case BufferElement::Double:
      return "doubles";
    case BufferElement::Single:
      return "singles";
    case BufferElement::Byte:
      return "bytes";
  }
  return "";
}

void add(Hash& hash, const Cut& cut) {
  hash.add(cut.dim);
  hash.add(cut.parts.size());
  for (const auto& part : cut.parts) {
    hash.add(part.size());
    for (const ShardRange& range : part) {
      hash.add(range.start);
      hash.add(range.size);
    }
  }
}

std::string cut_text(std::string_view word, const Cut& cut) {
  std::string text = fmt::format(" {} dim {}", word, cut.dim);
  if (cut.parts.empty()) return text;
  std::vector<std::string> parts;
  for (const auto& part : cut.parts) {
    std::string ranges;
    for (const ShardRange& range : part) {
      ranges += fmt::format("{}{}+{}", ranges.empty() ? "" : " ", range.start, range.size);
    }
    parts.push_back(ranges.empty() ? "nothing" : ranges);
  }
  return text + fmt::format(" in {}", fmt::join(parts, " | "));
}

}  // namespace

std::vector<GroupOrder> group_orders(const Program& program) {
  std::map<std::pair<bool, std::vector<DeviceId>>, std::vector<std::uint32_t>> found;
  std::vector<std::vector<std::uint32_t>*> known(program.transfers.size(), nullptr);
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::Transfer) continue;
    auto*& transfers = known[task.what];
    if (transfers == nullptr) {
      const Transfer& transfer = program.transfer(task);
      std::vector<DeviceId> members = transfer.group;
      if (!is_pair(transfer.kind)) std::ranges::sort(members);
      transfers = &found[{is_pair(transfer.kind), std::move(members)}];
    }
    transfers->push_back(task.what);
  }
  std::vector<GroupOrder> orders;
  for (auto& [group, transfers] : found) {
    orders.push_back({group.first, group.second, std::move(transfers)});
  }
  return orders;
}

std::uint64_t work_hash(const Transfer& transfer, Precision precision) {
  Hash hash;
  if (!is_pair(transfer.kind)) {
    hash.add(transfer.kind);
    hash.add(transfer.reduction);
    hash.add(transfer.group);
  }
  hash.add(element_of(transfer));
  // Members' parts differ from each other.
  if (transfer.own_parts) {
    hash.add(transfer.source->sizes.back());
    return hash.value();
  }
  hash.add(bytes_of(transfer, precision));
  hash.add(whole_sizes(transfer));
  if (cuts_source(transfer.kind)) add(hash, transfer.source_cut);
  if (cuts_target(transfer.kind)) add(hash, transfer.target_cut);
  if (transfer.rows) hash.add(transfer.rows->returns ? 2 : 1);
  return hash.value();
}

std::string work_text(const Transfer& transfer) {
  std::string text =
      fmt::format("{}{} of {} [{}]", to_text(transfer.kind),
                  transfer.reduction == Reduction::Max ? " of maxima" : "",
                  element_text(element_of(transfer)), fmt::join(whole_sizes(transfer), ","));
  if (cuts_source(transfer.kind)) text += cut_text("from", transfer.source_cut);
  if (cuts_target(transfer.kind)) text += cut_text("to", transfer.target_cut);
  std::vector<std::size_t> group;
  for (const DeviceId device : transfer.group) group.push_back(device.index());
  return text + fmt::format(" among [{}]", fmt::join(group, ","));
}

}  // namespace meshwright
