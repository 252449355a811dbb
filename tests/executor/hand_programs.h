#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/base/hash.h"
#include "executor/train.h"
#include "simulator/engine/simulate.h"
#include "simulator/lowering/program_writer.h"
#include "simulator/program/arena.h"
#include "simulator/program/check_program.h"

namespace meshwright {

inline std::vector<DeviceId> first_devices(std::size_t count) {
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < count; ++d) devices.emplace_back(d);
  return devices;
}

inline std::string numbered(const char* what, std::size_t device) {
  return what + std::to_string(device);
}

// What an element of a named tensor starts with: in (-1, 1), the same for every device and test.
inline double start_value(const std::string& name, std::int64_t index) {
  Hash hash;
  hash.add(name);
  hash.add(index);
  return static_cast<double>(hash.value() >> 11) / 4503599627370496.0 - 1.0;
}

inline std::vector<double> start_values(const std::string& name, std::int64_t count) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(start_value(name, i));
  return values;
}

// The program of one device, task by task; lanes and waits follow from what tasks use.
class HandProgram {
 public:
  HandProgram(std::size_t device, Precision precision, BatchPlace batch = {2, 0, 2, 4})
      : program_(std::make_unique<Program>()), writer_(*program_) {
    program_->device = DeviceId(device);
    program_->precision = precision;
    program_->batch = batch;
  }

  // Starts with start_values of its name and can be read after the run.
  BufferId tensor(const std::string& name, std::int64_t count) {
    const BufferId id = writer_.add_buffer(
        {.name = name, .count = count, .component = Component::Weights, .persistent = true});
    program_->weights.push_back(
        {.name = name, .place = {{0, count}}, .sizes = {count}, .weight = id});
    return id;
  }
  BufferId buffer(const std::string& name, std::int64_t count,
                  BufferElement element = BufferElement::Real) {
    return writer_.add_buffer({.name = name, .count = count, .element = element});
  }

  using Used = std::pair<BufferId, Operand>;
  void kernel(Kernel kernel, const std::vector<Used>& reads, const std::vector<Used>& writes) {
    std::vector<BufferId> buffers;
    for (const auto& [id, operand] : reads) {
      kernel.operands.push_back(operand);
      buffers.push_back(id);
    }
    for (const auto& [id, operand] : writes) {
      kernel.operands.push_back(operand);
      kernel.operands.back().written = true;
      buffers.push_back(id);
    }
    writer_.add_task(std::move(kernel), buffers, next());
  }
  void transfer(Transfer transfer, const std::vector<BufferId>& buffers) {
    writer_.add_task(std::move(transfer), buffers, next());
  }
  void send(std::size_t to, BufferId id, const Operand& operand) {
    transfer(
        {.kind = TransferKind::Send, .group = {program_->device, DeviceId(to)}, .source = operand},
        {id});
  }
  void receive(std::size_t from, BufferId id, const Operand& operand) {
    transfer({.kind = TransferKind::Receive,
              .group = {DeviceId(from), program_->device},
              .target = operand},
             {id});
  }

  Program take() {
    writer_.finish();
    return std::move(*program_);
  }

 private:
  OrderKey next() { return {time_++, 0, 0}; }

  std::unique_ptr<Program> program_;
  ProgramWriter writer_;
  std::int64_t time_ = 0;
};

// Bytes per nanosecond, so that every task takes time.
class BytePrices : public CostModel {
 public:
  Price kernel(const Kernel& kernel, Precision precision, DeviceId) const override {
    return {Seconds(1e-9 * static_cast<double>(bytes_of(kernel, precision).value()))};
  }
  Price transfer(const Transfer& transfer, Precision precision) const override {
    return {Seconds(1e-9 * bytes_sent(transfer, precision))};
  }
};

// The engine plays every task for its price, as long as nothing shares or slows.
inline void check_played(const std::vector<Program>& programs) {
  const BytePrices prices;
  const Timeline timeline = simulate(programs, prices);
  for (std::size_t p = 0; p < programs.size(); ++p) {
    const Program& program = programs[p];
    REQUIRE(timeline.devices[p].tasks.size() == program.tasks.size());
    for (std::size_t t = 0; t < program.tasks.size(); ++t) {
      const Task& task = program.tasks[t];
      const Price price = task.kind == TaskKind::Kernel
                              ? prices.kernel(program.kernel(task), program.precision, DeviceId(0))
                              : prices.transfer(program.transfer(task), program.precision);
      const TaskSpan& span = timeline.devices[p].tasks[t];
      CHECK((span.finish - span.start).value() == Approx(price.time.value()));
      CHECK(span.finish <= timeline.step);
    }
  }
}

// Checks the programs, lays them out, plays them and runs them: the tensors afterwards.
inline std::map<std::string, std::vector<double>> run_hand_programs(
    const std::vector<Program>& programs, const StepSettings& settings = {},
    std::int64_t vocabulary = 7) {
  REQUIRE(check_programs(programs) == std::vector<std::string>{});
  for (const Program& program : programs) {
    CHECK(check_arena(program, lay_out_arena(program)) == std::vector<std::string>{});
  }
  check_played(programs);
  const Initializer start = [](const std::string& name, const std::vector<std::int64_t>&) {
    return [name](std::int64_t index) { return start_value(name, index); };
  };
  RunOptions options{.keep_weights = true};
  const RunResult result =
      run_threads(programs, settings, options, start, RandomTokens(3, vocabulary));
  std::map<std::string, std::vector<double>> tensors;
  for (const auto& [name, tensor] : result.weights) tensors[name] = tensor.values;
  return tensors;
}

inline void check_near(const std::vector<double>& values, const std::vector<double>& expected,
                       double tolerance = 1e-12) {
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    CHECK(values[i] == Approx(expected[i]).epsilon(tolerance).margin(tolerance));
  }
}

}  // namespace meshwright
