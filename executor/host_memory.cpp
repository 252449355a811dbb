#include "executor/host_memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "executor/cpu/widened_call.h"
#include "executor/memory_error.h"
#include "simulator/program/arena.h"

namespace meshwright {
namespace {

namespace fs = std::filesystem;

// The number after `name` in a file of lines "name number", or the only number of a file where
// `name` is empty. None: no such file or name, or a word such as "max".
std::optional<std::int64_t> number_in(const fs::path& file, std::string_view name) {
  std::ifstream stream(file);
  for (std::string word; name.empty() || stream >> word;) {
    if (!name.empty() && word != name) continue;
    std::int64_t number = 0;
    return stream >> number ? std::optional(number) : std::nullopt;
  }
  return std::nullopt;
}

// What a control group has left. What it holds of files that nobody uses now it gives back.
std::optional<std::int64_t> left_in_group(const fs::path& folder, const char* limit,
                                          const char* used, const char* files) {
  const auto most = number_in(folder / limit, ""), now = number_in(folder / used, "");
  if (!most || !now) return std::nullopt;
  return *most - *now + number_in(folder / "memory.stat", files).value_or(0);
}

std::optional<Bytes> addresses_left() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const auto pages = number_in("/proc/self/statm", "");
  return Bytes(static_cast<std::int64_t>(limit.rlim_cur) -
               pages.value_or(0) * static_cast<std::int64_t>(::sysconf(_SC_PAGE_SIZE)));
}

// What the thread of a device takes of them besides: OpenBLAS's buffer (128 MiB, which it asks for
// until it has it), glibc's heap (64 MiB) and a stack (8 MiB).
constexpr Bytes kAddressesOfThread = 200_MiB;

// What the kernel that has most of them needs for fp32 copies of 16-bit numbers.
Bytes largest_copies(const Program& program) {
  if (!is_widened(program.precision)) return {};
  Bytes largest;
  for (const Task& task : program.tasks) {
    if (task.kind != TaskKind::Kernel) continue;
    const Kernel& kernel = program.kernel(task);
    std::int64_t rows = 0;
    const auto buffers = program.operands_of(task);
    for (std::size_t i = 0; i < kernel.operands.size(); ++i) {
      if (!kernel.operands[i].counted) continue;
      rows = program.buffers[buffers[i].index()].count / kernel.operands[i].sizes.back();
    }
    largest = std::max(largest, widened_bytes(kernel, rows));
  }
  return largest;
}

}  // namespace

Bytes total_memory() {
  return Bytes(static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGE_SIZE));
}

Bytes available_memory(const fs::path& root) {
  std::int64_t least = total_memory().value();
  if (const auto kib = number_in(root / "proc/meminfo", "MemAvailable:")) least = *kib * 1024;
  const fs::path groups = root / "sys/fs/cgroup";
  for (const auto& limit : {left_in_group(groups, "memory.max", "memory.current", "inactive_file"),
                            left_in_group(groups / "memory", "memory.limit_in_bytes",
                                          "memory.usage_in_bytes", "total_inactive_file")}) {
    if (limit) least = std::min(least, *limit);
  }
  return Bytes(std::max<std::int64_t>(least, 0));
}

Bytes memory_needed(std::span<const Program> programs) {
  Bytes needed;
  for (const Program& program : programs) {
    needed += lay_out_arena(program).peak + lay_out_arena(program, Space::Host).peak;
    needed += largest_copies(program);
  }
  return needed;
}

void check_memory(Bytes needed, Bytes available) {
  if (needed <= available) return;
  throw MemoryError(fmt::format("out of memory: the devices need {} together, {} is available here",
                                to_text(needed), to_text(available)));
}

void check_addresses(std::span<const Program> programs) {
  const auto left = addresses_left();
  const Bytes needed =
      memory_needed(programs) + kAddressesOfThread * static_cast<std::int64_t>(programs.size());
  if (!left || needed <= *left) return;
  throw MemoryError(
      fmt::format("out of memory: {} of addresses are needed, {} are left by the limit of a "
                  "process (ulimit -v)",
                  to_text(needed), to_text(std::max(*left, Bytes(0)))));
}

}  // namespace meshwright
