#include "executor/benchmark/cpu_target.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>

#include "executor/benchmark/transfer_bench.h"
#include "executor/cpu/kernels.h"
#include "executor/stored.h"
#include "executor/thread_transport.h"

namespace meshwright {
namespace {

// Of this thread. What a kernel takes alone on its core, also while others want the core.
Seconds processor_time() {
  struct timespec now {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return Seconds(static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9);
}

// Elements that an operand reaches over in its buffer.
std::size_t extent_of(const Operand& operand) {
  std::int64_t last = operand.offset;
  for (std::size_t i = 0; i < operand.sizes.size(); ++i) {
    last += (operand.sizes[i] - 1) * operand.strides[i];
  }
  return static_cast<std::size_t>(last + 1);
}

template <class T, class Value>
void fill(std::vector<std::byte>& buffer, Value value) {
  T* const numbers = reinterpret_cast<T*>(buffer.data());
  for (std::size_t i = 0; i < buffer.size() / sizeof(T); ++i)
    numbers[i] = stored<T>(static_cast<double>(value(i)));
}

// A kernel with its memory. Reals are ordinary numbers between -1 and 1, never 0 or denormal, which
// some processors are slow with; indices run through the rows of a table, or are labels.
struct KernelBench {
  Kernel kernel;
  Precision precision;
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> buffers;
  StepSettings settings{.step = 3};

  KernelBench(Kernel made, Precision wanted) : kernel(std::move(made)), precision(wanted) {
    for (const Operand& operand : kernel.operands) {
      const auto width =
          static_cast<std::size_t>(bytes_per_element(operand.element, precision).value());
      memory.emplace_back(extent_of(operand) * width);
      fill_operand(operand, memory.back());
    }
    for (auto& buffer : memory) buffers.push_back(buffer.data());
  }

  void fill_operand(const Operand& operand, std::vector<std::byte>& buffer) const {
    const auto real = [](std::size_t i) {
      return (i % 2 == 0 ? 1 : -1) * (0.125 + static_cast<double>(i * 40503 % 1021) / 1200.0);
    };
    if (operand.element == BufferElement::Index) {
      const std::size_t rows = index_limit();
      fill<std::int32_t>(buffer, [&](std::size_t i) { return i * 40503 % rows; });
    } else if (operand.element == BufferElement::Double) {
      fill<double>(buffer, [](std::size_t) { return 1.0; });
    } else {
      with_stored(operand.element, precision,
                  [&](auto type) { fill<decltype(type)>(buffer, real); });
    }
  }

  std::size_t index_limit() const {
    if (kernel.kind != KernelKind::Embedding) return 2;
    const Operand& table = kernel.operands[kernel.phase == Phase::Forward ? 1 : 2];
    return static_cast<std::size_t>(table.sizes[0]);
  }

  Seconds run(std::int64_t count) const {
    const Seconds start = processor_time();
    for (std::int64_t i = 0; i < count; ++i) run_kernel({kernel, buffers, settings, 0}, precision);
    return processor_time() - start;
  }
};

// One thread per device of the group; the first one's clock counts.
struct ThreadsBench {
  std::vector<DeviceId> group;
  std::vector<TransferBench> members;

  ThreadsBench(TransferKind kind, const std::vector<DeviceId>& devices, Bytes bytes)
      : group(devices) {
    for (std::size_t place = 0; place < group.size(); ++place) {
      members.emplace_back(kind, group, bytes, place);
    }
  }

  Seconds run(std::int64_t count) {
    ThreadNetwork network;
    Seconds time;
    std::exception_ptr failure;
    std::mutex guard;
    {
      std::vector<std::jthread> threads;
      for (std::size_t place = 0; place < members.size(); ++place) {
        threads.emplace_back([&, place] {
          try {
            const Seconds mine = members[place].run(*network.endpoint(group[place]), count);
            if (place == 0) time = mine;
          } catch (...) {
            const std::lock_guard lock(guard);
            if (!failure) failure = std::current_exception();
            network.fail("another device failed");
          }
        });
      }
    }
    if (failure) std::rethrow_exception(failure);
    return time;
  }
};

}  // namespace

std::string machine_name() {
  std::ifstream information("/proc/cpuinfo");
  std::string name = "unknown processor";
  for (std::string line; std::getline(information, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) name = line.substr(colon + 2);
  }
  return fmt::format("{}, {} cores", name, std::max(1u, std::thread::hardware_concurrency()));
}

Provenance CpuTarget::provenance() const { return {machine_, software_, "meshwright benchmark"}; }

DeviceRecord CpuTarget::device() const {
  return {.device = "core",
          .description = "a thread on " + machine_,
          .devices = devices_,
          .memory = memory_ / devices_};
}

std::optional<Timed> CpuTarget::kernel(const Kernel& kernel, Precision precision) {
  if (kernel.kind == KernelKind::Load || !has_kernels(precision)) return {};
  const auto bench = std::make_shared<KernelBench>(kernel, precision);
  return [bench](std::int64_t count) { return bench->run(count); };
}

Timed CpuTarget::transfer(TransferKind kind, const std::vector<DeviceId>& group, Bytes bytes) {
  const auto bench = std::make_shared<ThreadsBench>(kind, group, bytes);
  return [bench](std::int64_t count) { return bench->run(count); };
}

Timed CpuTarget::copy(std::optional<CopyDirection>, Bytes bytes) {
  const auto size = static_cast<std::size_t>(bytes.value());
  const auto from = std::make_shared<std::vector<std::byte>>(size, std::byte{1});
  const auto to = std::make_shared<std::vector<std::byte>>(size, std::byte{2});
  return [from, to](std::int64_t count) {
    const Seconds start = processor_time();
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(to->data(), from->data(), from->size());
      // What is copied must be taken for needed.
      asm volatile("" : : "r"(to->data()) : "memory");
    }
    return processor_time() - start;
  };
}

}  // namespace meshwright
