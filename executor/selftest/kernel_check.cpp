#include "executor/selftest/kernel_check.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "executor/cpu/cpu_device.h"
#include "executor/device_buffers.h"
#include "executor/element_numbers.h"
#include "executor/kernel_statistics.h"
#include "executor/selftest/kernel_cases.h"
#include "executor/thread_transport.h"
#include "simulator/plan/plan.h"

namespace meshwright {
namespace {

// Elements up to an operand's last one, gaps among them.
std::int64_t end_of(const Operand& operand) {
  std::int64_t last = operand.offset;
  for (std::size_t d = 0; d < operand.sizes.size(); ++d) {
    last += (operand.sizes[d] - 1) * operand.strides[d];
  }
  return last + 1;
}

// One kernel, with buffers that have room for its operands.
Program program_of(Kernel kernel, Precision precision) {
  Program program{.device = DeviceId(0), .precision = precision};
  if (is_mixed(precision)) {
    for (const std::size_t i : statistics_of(kernel)) {
      kernel.operands[i].element = BufferElement::Single;
    }
  }
  program.kernels = {kernel};
  program.lanes = {"compute"};
  for (std::size_t i = 0; i < kernel.operands.size(); ++i) {
    const Operand& operand = kernel.operands[i];
    program.buffers.push_back({.name = SharedText("operand " + std::to_string(i)),
                               .count = end_of(operand),
                               .element = operand.element,
                               .persistent = true});
    program.operands.push_back(BufferId(i));
  }
  program.tasks = {{.kind = TaskKind::Kernel,
                    .lane = LaneId(0),
                    .operand_count = static_cast<std::uint32_t>(kernel.operands.size())}};
  return program;
}

// By operand, what it holds.
using Numbers = std::vector<std::vector<double>>;

Numbers ordinary_numbers(const Program& program) {
  Numbers numbers;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    numbers.emplace_back();
    for (std::int64_t k = 0; k < program.buffers[i].count; ++k) {
      numbers[i].push_back(ordinary_number(program.kernels[0], i, static_cast<std::size_t>(k)));
    }
  }
  return numbers;
}

std::vector<std::byte> bytes_of(const Program& program, std::size_t operand,
                                const std::vector<double>& numbers) {
  const Buffer& buffer = program.buffers[operand];
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(bytes_of(buffer, program.precision).value()));
  for (std::int64_t k = 0; k < buffer.count; ++k) {
    set_number(bytes, k, numbers[static_cast<std::size_t>(k)], buffer.element, program.precision);
  }
  return bytes;
}

// What the operands hold after the kernel has run once.
Numbers numbers_after(const Program& program, const Numbers& before,
                      const DeviceMaker& make_device) {
  constexpr StepSettings kSettings{.seed = 7, .step = 2, .label_share = 0.25, .clip = 0.5};
  ThreadNetwork network;
  const auto transport = network.endpoint(program.device);
  const auto device = make_device(program, *transport);
  const DeviceBuffers buffers(program, *device, 0);
  const LaneId lane(0);
  std::vector<std::byte*> starts;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    starts.push_back(buffers.start_of(BufferId(i)));
    device->write(lane, bytes_of(program, i, before[i]), starts.back());
  }
  device->begin(lane, 0);
  device->launch(lane, {program.kernels[0], starts, kSettings});
  device->record(lane, 0);
  device->finish();
  Numbers numbers;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    numbers.push_back(buffers.numbers_in(BufferId(i), lane));
  }
  return numbers;
}

// A gradient of attention is given what the forward of the same queries, keys and values gave:
// shares that do not add up to one would be far larger than what 16 bits are compared by.
Numbers numbers_before(const Kernel& kernel, const DeviceMaker& processor) {
  const Program program = program_of(kernel, Precision::FP64);
  Numbers numbers = ordinary_numbers(program);
  if (kernel.kind != KernelKind::Attention || kernel.phase == Phase::Forward) return numbers;
  Kernel forward = kernel;
  forward.phase = Phase::Forward;
  forward.accumulate = false;
  forward.operands.resize(5);
  for (const std::size_t i : {3u, 4u}) forward.operands[i].written = true;
  const Program made = program_of(forward, Precision::FP64);
  const Numbers after = numbers_after(made, {numbers.begin(), numbers.begin() + 5}, processor);
  for (const std::size_t i : {3u, 4u}) numbers[i] = after[i];
  return numbers;
}

double largest_error(const Numbers& expected, const Numbers& found) {
  double most = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (std::size_t k = 0; k < expected[i].size(); ++k) {
      const double a = expected[i][k], b = found[i][k];
      if (std::isnan(a) != std::isnan(b)) return std::numeric_limits<double>::infinity();
      if (!std::isnan(a)) most = std::max(most, std::abs(a - b) / (1 + std::abs(a)));
    }
  }
  return most;
}

// A few roundings of numbers about 1, of rows that are short.
double limit_of(Precision precision) {
  switch (precision) {
    case Precision::FP64:
      return 1e-12;
    case Precision::FP32:
    case Precision::TF32:
      return 1e-5;
    case Precision::FP16:
      return 0x1p-8;
    case Precision::BF16:
    case Precision::FP8:
      break;
  }
  return 0x1p-5;
}

std::string name_of(const Kernel& kernel, Precision precision) {
  std::string name = std::string(to_text(kernel.kind)) + " " + std::string(to_text(kernel.phase));
  if (const auto* function = std::get_if<FunctionAttributes>(&kernel.attributes)) {
    name += " " + std::string(to_text(function->function));
  }
  return name + ", " + std::string(to_text(precision));
}

SelfCheck check_kernel(const Kernel& kernel, const DeviceMaker& make_device, Precision precision) {
  SelfCheck check{
      .part = "kernels", .name = name_of(kernel, precision), .limit = limit_of(precision)};
  try {
    const DeviceMaker processor = cpu_devices([] { return Seconds(0); });
    const Numbers before = numbers_before(kernel, processor);
    const Numbers expected = numbers_after(program_of(kernel, Precision::FP64), before, processor);
    check.error =
        largest_error(expected, numbers_after(program_of(kernel, precision), before, make_device));
  } catch (const std::exception& error) {
    check.problem = error.what();
  }
  return check;
}

}  // namespace

std::vector<SelfCheck> check_kernels(const DeviceMaker& make_device, Precision precision,
                                     const std::function<void(const SelfCheck&)>& tried) {
  std::vector<SelfCheck> checks;
  for (const Kernel& kernel : kernel_cases()) {
    checks.push_back(check_kernel(kernel, make_device, precision));
    tried(checks.back());
  }
  return checks;
}

}  // namespace meshwright
