#include "simulator/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <charconv>

#include "costmodel/base/checked.h"

namespace meshwright {
namespace {

constexpr std::string_view kLetters = "FBIW";

std::optional<std::int32_t> parse_entry_number(std::string_view text) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

}  // namespace

bool is_mixed(Precision precision) {
  return bytes_per_element(BufferElement::Real, precision) < 4_B;
}

bool skips_steps(Precision precision) { return precision == Precision::FP16; }

BufferElement state_element(const Plan& plan) {
  return is_mixed(plan.precision) ? BufferElement::Single : BufferElement::Real;
}

BufferElement gradient_element(const Plan& plan) {
  return plan.gradient_precision == Precision::FP32 ? state_element(plan) : BufferElement::Real;
}

std::int64_t replica_count(const Plan& plan) {
  return plan.slots.front().mesh.size(plan.batch_axes);
}

std::int64_t microbatch_count(const Plan& plan) {
  return plan.global_batch / (replica_count(plan) * plan.micro_batch);
}

std::optional<std::string> batch_problem(std::int64_t global_batch, std::int64_t dp,
                                         std::int64_t micro_batch) {
  constexpr std::int64_t kMost = 4096;
  const std::int64_t at_once = checked_multiply(dp, micro_batch);
  if (global_batch % at_once != 0) {
    return fmt::format("a global batch of {} cannot be cut into dp={} times micro-batches of {}",
                       global_batch, dp, micro_batch);
  }
  if (global_batch / at_once <= kMost) return std::nullopt;
  return fmt::format(
      "a global batch of {} samples over dp={} times micro-batches of {} is {} micro-batches a "
      "step, more than {}; a batch given in tokens is to be divided by the sequence",
      global_batch, dp, micro_batch, global_batch / at_once, kMost);
}

std::size_t device_count(const Plan& plan) {
  std::size_t count = 0;
  for (const Slot& slot : plan.slots) count += slot.mesh.devices().size();
  return count;
}

std::vector<DeviceId> devices_of(const Plan& plan) {
  std::vector<DeviceId> devices;
  for (const Slot& slot : plan.slots) {
    devices.insert(devices.end(), slot.mesh.devices().begin(), slot.mesh.devices().end());
  }
  std::sort(devices.begin(), devices.end());
  return devices;
}

std::size_t chunk_of(const Plan& plan, std::size_t op) {
  for (std::size_t c = 0; c < plan.chunks.size(); ++c) {
    if (op >= plan.chunks[c].first_op && op < plan.chunks[c].end_op) return c;
  }
  assert(!"an op of a chunk");
  return 0;
}

std::string_view to_text(Implementation implementation) {
  switch (implementation) {
    case Implementation::Local:
      return "local";
    case Implementation::Ring:
      return "ring";
    case Implementation::RingSelfAttention:
      return "rsa";
    case Implementation::Summa:
      return "summa";
  }
  return "";
}

std::optional<Implementation> parse_implementation(std::string_view text) {
  for (const Implementation one : {Implementation::Local, Implementation::Ring,
                                   Implementation::RingSelfAttention, Implementation::Summa}) {
    if (text == to_text(one)) return one;
  }
  return std::nullopt;
}

std::string to_text(const OrderEntry& entry) {
  return fmt::format("{}{}.{}", kLetters[static_cast<std::size_t>(entry.kind)], entry.chunk,
                     entry.microbatch);
}

std::optional<OrderEntry> parse_order_entry(std::string_view text) {
  const auto letter = text.empty() ? kLetters.npos : kLetters.find(text.front());
  const auto dot = text.find('.');
  if (letter == kLetters.npos || dot == text.npos) return std::nullopt;
  const auto chunk = parse_entry_number(text.substr(1, dot - 1));
  const auto microbatch = parse_entry_number(text.substr(dot + 1));
  if (!chunk || !microbatch) return std::nullopt;
  return OrderEntry{static_cast<EntryKind>(letter), *chunk, *microbatch};
}

}  // namespace meshwright
