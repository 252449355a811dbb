#include "executor/cuda/nccl_transfers.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "executor/cuda/transfer_run.h"
#include "executor/device_error.h"

namespace meshwright::cuda {
namespace {

using namespace std::chrono_literals;

// Until all members of a group have come.
constexpr Seconds kJoinLimit(60);

std::string hex_of(const ncclUniqueId& id) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : id.internal) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

ncclUniqueId id_of(const std::string& hex) {
  ncclUniqueId id{};
  const auto digit = [&](std::size_t i) { return std::stoi(hex.substr(i, 1), nullptr, 16); };
  for (std::size_t i = 0; i < sizeof(id.internal) && 2 * i + 1 < hex.size(); ++i) {
    id.internal[i] = static_cast<char>(digit(2 * i) * 16 + digit(2 * i + 1));
  }
  return id;
}

std::string text_of_keys(const std::vector<OrderKey>& keys) {
  std::ostringstream text;
  for (const OrderKey& key : keys) text << key.time << ' ' << key.stage << ' ' << key.index << ' ';
  return text.str();
}

std::vector<OrderKey> keys_in(const std::string& text) {
  std::vector<OrderKey> keys;
  std::istringstream numbers(text);
  for (OrderKey key; numbers >> key.time >> key.stage >> key.index;) keys.push_back(key);
  return keys;
}

}  // namespace

std::string NcclTransfers::text_of(const Group& group) {
  std::string text = group.pair ? "pair" : "group";
  for (const DeviceId member : group.members) text += " " + std::to_string(member.index());
  return text;
}

NcclTransfers::NcclTransfers(const Program& program) : program_(program) {}

// Of each line what stands before the sign, and what stands behind it.
void NcclTransfers::connect(Transport& transport, const std::vector<DeviceId>& devices) {
  if (devices.size() <= 1) return;
  std::set<Group> groups;
  for (const Transfer& transfer : program_.transfers) {
    groups.insert({is_pair(transfer.kind), transfer.group});
  }
  std::map<std::string, std::string> said;
  for (const std::string& text : transport.exchange(devices, meeting_text(groups))) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t end = line.find('=');
      if (end != line.npos) said[line.substr(0, end)] = line.substr(end + 1);
    }
  }
  ReceiveKeys receives;
  for (const Group& group : groups) {
    if (!group.pair || group.members[0] != program_.device) continue;
    receives[group.members] = keys_in(said["receives of " + text_of(group)]);
  }
  space_ = transfer_space(program_, receives);
  take_memory();
  for (const Group& group : groups) {
    const auto id = said.find(text_of(group));
    if (id == said.end()) throw DeviceError("NCCL: nobody has begun the " + text_of(group));
    join(group, id_of(id->second));
  }
}

// The first member of a group says by which number the others find it, and the second of a pair
// when it receives. All join their groups in one order, so none waits for a group that its members
// come to in a circle.
std::string NcclTransfers::meeting_text(const std::set<Group>& groups) const {
  std::string text;
  for (const Group& group : groups) {
    if (group.members.front() != program_.device) continue;
    ncclUniqueId id{};
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    text += text_of(group) + "=" + hex_of(id) + "\n";
  }
  for (const auto& [pair, keys] : receive_keys(program_)) {
    text += "receives of " + text_of({true, pair}) + "=" + text_of_keys(keys) + "\n";
  }
  return text;
}

void NcclTransfers::take_memory() {
  if (space_.total() == Bytes(0)) return;
  memory_ = std::make_unique<DeviceMemory>(static_cast<std::size_t>(space_.total().value()));
  auto* next = static_cast<std::byte*>(memory_->data());
  for (const auto& [pair, space] : space_.sends) {
    sends_.try_emplace(pair, next, space);
    next += space.total().value();
  }
  for (const auto& [lane, bytes] : space_.staging) {
    staging_[lane] = next;
    next += bytes.value();
  }
}

// A block of NCCL's waits on its multiprocessor for blocks of other devices. Were there more of
// them than multiprocessors, those of one transfer could hold back another that a device which
// waits for this one is at. So each stream that transfers has its share: all other kernels end by
// themselves.
int NcclTransfers::most_blocks() const {
  std::set<LaneId> lanes;
  for (const Task& task : program_.tasks) {
    if (task.kind == TaskKind::Transfer) lanes.insert(task.lane);
  }
  int device = 0, multiprocessors = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  constexpr int kUsual = 32;  // more are no faster
  const auto streams = static_cast<int>(lanes.size() + space_.sends.size());
  return std::clamp(multiprocessors / std::max(streams, 1), 1, kUsual);
}

void NcclTransfers::join(const Group& group, const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.maxCTAs = most_blocks();
  const auto place = std::ranges::find(group.members, program_.device) - group.members.begin();
  ncclComm_t communicator = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (given_up_) throw PeerFailure(*given_up_);
    const ncclResult_t result =
        ncclCommInitRankConfig(&communicator, static_cast<int>(group.members.size()), id,
                               static_cast<int>(place), &config);
    if (communicator != nullptr) communicators_[group] = communicator;
    if (result != ncclInProgress) check(result, "ncclCommInitRankConfig");
  }
  wait_for(communicator, "ncclCommInitRankConfig", kJoinLimit);
}

NcclTransfers::~NcclTransfers() {
  const std::lock_guard lock(mutex_);
  for (const auto& [group, communicator] : communicators_) {
    ncclResult_t state = ncclCommFinalize(communicator);
    const auto end = std::chrono::steady_clock::now() + 5s;
    while (state == ncclInProgress && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(100us);
      if (ncclCommGetAsyncError(communicator, &state) != ncclSuccess) break;
    }
    state == ncclSuccess ? ncclCommDestroy(communicator) : ncclCommAbort(communicator);
  }
}

void NcclTransfers::give_up(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (given_up_) return;
  given_up_ = reason;
  for (const auto& [group, communicator] : communicators_) ncclCommAbort(communicator);
  communicators_.clear();
}

void NcclTransfers::fail(ncclResult_t result, const char* name) {
  const std::string message = std::string("NCCL: ") + name + ": " + ncclGetErrorString(result);
  if (result == ncclRemoteError) throw PeerFailure(message);
  throw DeviceError(message + ": " + ncclGetLastError(nullptr));
}

void NcclTransfers::check_alive() {
  const std::lock_guard lock(mutex_);
  if (given_up_) throw PeerFailure(*given_up_);
  for (const auto& [group, communicator] : communicators_) {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(communicator, &state), "ncclCommGetAsyncError");
    if (state != ncclSuccess && state != ncclInProgress) fail(state, text_of(group).c_str());
  }
}

ncclComm_t NcclTransfers::communicator(const Transfer& transfer) {
  const std::lock_guard lock(mutex_);
  if (given_up_) throw PeerFailure(*given_up_);
  return communicators_.at({is_pair(transfer.kind), transfer.group});
}

void NcclTransfers::call(ncclComm_t communicator, const char* name,
                         const std::function<ncclResult_t()>& nccl) {
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    if (given_up_) throw PeerFailure(*given_up_);
    result = nccl();
  }
  if (result == ncclInProgress) return wait_for(communicator, name);
  if (result != ncclSuccess) fail(result, name);
}

void NcclTransfers::wait_for(ncclComm_t communicator, const char* name,
                             std::optional<Seconds> limit) {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    ncclResult_t state = ncclSuccess;
    {
      const std::lock_guard lock(mutex_);
      if (given_up_) throw PeerFailure(*given_up_);
      check(ncclCommGetAsyncError(communicator, &state), "ncclCommGetAsyncError");
    }
    if (state == ncclSuccess) return;
    if (state != ncclInProgress) fail(state, name);
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (limit && waited.count() > limit->value()) {
      throw DeviceError(std::string("NCCL: ") + name + ": not all devices of a group have come");
    }
    std::this_thread::yield();
  }
}

std::vector<cudaStream_t> NcclTransfers::send_streams() const {
  std::vector<cudaStream_t> streams;
  for (const auto& [pair, queue] : sends_) streams.push_back(queue.stream());
  return streams;
}

void NcclTransfers::forget_sends() {
  for (auto& [pair, queue] : sends_) queue.forget();
}

std::byte* NcclTransfers::staging(LaneId lane, std::size_t bytes) {
  const auto planned = space_.staging.find(lane);
  if (planned == space_.staging.end() ||
      bytes > static_cast<std::size_t>(planned->second.value())) {
    throw std::logic_error("a transfer needs more memory than was planned");
  }
  return staging_.at(lane);
}

void NcclTransfers::run(LaneId lane, cudaStream_t stream, const Transfer& transfer,
                        std::span<std::byte* const> buffers) {
  const ncclComm_t own = communicator(transfer);
  const auto place = std::ranges::find(transfer.group, program_.device) - transfer.group.begin();
  const bool sends = transfer.kind == TransferKind::Send;
  TransferRun({.transfer = transfer,
               .precision = program_.precision,
               .place = static_cast<std::size_t>(place),
               .buffers = buffers,
               .communicator = own,
               .stream = stream,
               .staging = [&](std::size_t bytes) { return staging(lane, bytes); },
               .sends = sends ? &sends_.at(transfer.group) : nullptr,
               .call = [&](const char* name, const auto& nccl) { call(own, name, nccl); }})
      .run();
}

}  // namespace meshwright::cuda
