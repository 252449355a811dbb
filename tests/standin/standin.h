#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Stands in for NVIDIA's runtime, cuBLASLt, cuDNN and NCCL, with their own headers, on the
// processor. Every call is checked as a real library would, and more strictly where one only
// happens to work. What is put into streams runs late, in any order that streams and events allow,
// drawn by a seed: a wait that is missing becomes a wrong number. Devices are those of one process;
// NCCL's ranks are its threads.
namespace meshwright::standin {

// The so many-th call of a function, from 1, fails. "kernel" is a kernel that fails when it runs.
struct Failure {
  std::string function;
  std::int64_t call = 1;
};

struct Options {
  int devices = 4;
  std::size_t memory = std::size_t{1} << 30;  // of each device
  std::uint32_t seed = 1;
  double patience_s = 20;  // when nothing has moved for so long, it is a deadlock
  // A device runs one kernel at a time, and a transfer is one: it may run before whatever is not
  // ordered before it, and nothing runs beside it. What GPUs guarantee is no more than this.
  bool one_at_a_time = false;
  // Only what runs on a device can touch its memory. It takes several times as long.
  bool guarded = true;
  // That call of cudaStreamWaitEvent does nothing, and what it was to wait for runs only when
  // nothing else of its device can.
  std::optional<std::int64_t> ignored_wait;
  std::optional<Failure> failure;
};

// Everything anew: memory, streams and all else from before are gone. Until the first call the
// environment has the say: MESHWRIGHT_STANDIN="devices=2 seed=7 fail=cudaMalloc:3 ignore_wait=5".
void restart(const Options& options);

std::size_t used_bytes(int device);
std::size_t peak_bytes(int device);  // since the start
std::int64_t calls_of(const std::string& function);
// Whether a stream went on before what a wait that was left out was for.
bool was_overtaken();
// What was wrong, in the order in which it was found: also what a real library lets pass and may
// then do wrong.
std::vector<std::string> faults();
bool has_fault(const std::string& text);  // in one of them

}  // namespace meshwright::standin
