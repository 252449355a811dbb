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
                               .count = operand.offset + element_count(operand),
                               .element = operand.element,
                               .persistent = true});
    program.operands.push_back(BufferId(i));
  }
  program.tasks = {{.kind = TaskKind::Kernel,
                    .lane = LaneId(0),
                    .operand_count = static_cast<std::uint32_t>(kernel.operands.size())}};
  return program;
}

std::vector<std::byte> bytes_for(const Program& program, std::size_t operand) {
  const Buffer& buffer = program.buffers[operand];
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(bytes_of(buffer, program.precision).value()));
  for (std::int64_t k = 0; k < buffer.count; ++k) {
    const double value = ordinary_number(program.kernels[0], operand, static_cast<std::size_t>(k));
    set_number(bytes, k, value, buffer.element, program.precision);
  }
  return bytes;
}

// What the operands hold after the kernel has run once.
std::vector<std::vector<double>> numbers_after(const Program& program,
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
    device->write(lane, bytes_for(program, i), starts.back());
  }
  device->begin(lane, 0);
  device->launch(lane, {program.kernels[0], starts, kSettings});
  device->record(lane, 0);
  device->finish();
  std::vector<std::vector<double>> numbers;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    numbers.push_back(buffers.numbers_in(BufferId(i), lane));
  }
  return numbers;
}

double largest_error(const std::vector<std::vector<double>>& expected,
                     const std::vector<std::vector<double>>& found) {
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
  std::string name = std::string(to_text(kernel.kind)) + " " + std::string(to_text(kernel.part));
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
    const auto expected = numbers_after(program_of(kernel, Precision::FP64), processor);
    check.error =
        largest_error(expected, numbers_after(program_of(kernel, precision), make_device));
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
    // In 16 bits attention is tried by training.
    if (is_mixed(precision) && kernel.kind == KernelKind::Attention) continue;
    checks.push_back(check_kernel(kernel, make_device, precision));
    tried(checks.back());
  }
  return checks;
}

}  // namespace meshwright
