#include "executor/process/member.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

#include "executor/process/step_record_json.h"
#include "executor/transport.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kBetweenBeats(1), kGrace(5);
constexpr int kEndedByOthers = 40;  // the exit code of a failed device

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Member::Member(FrameSocket socket)
    : socket_(std::move(socket)), wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  send(text_of({{"kind", "join"}, {"host", host_name()}, {"process", ::getpid()}}));
  listener_ = std::jthread([this](const std::stop_token& done) { listen(done); });
}

Member::~Member() {
  listener_.request_stop();
  ::eventfd_write(wake_.number(), 1);
  listener_.join();
}

void Member::tell_place(std::function<std::string()> place) {
  const std::lock_guard lock(mutex_);
  place_ = std::move(place);
}

void Member::on_call_off(std::function<void(const std::string&)> call_off) {
  const std::lock_guard lock(mutex_);
  call_off_ = std::move(call_off);
  if (failure_ && call_off_) call_off_(*failure_);
}

std::vector<std::string> Member::exchange(const std::vector<DeviceId>& group,
                                          const std::string& given) {
  Json indices = Json::array();
  for (const DeviceId device : group) indices.push_back(device.index());
  send(text_of({{"kind", "give"}, {"group", indices}, {"text", given}}));
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !given_.empty() || failure_ || explain_; });
  if (given_.empty()) throw PeerFailure(failure_.value_or("another device failed"));
  auto all = std::move(given_.back());
  given_.pop_back();
  return all;
}

void Member::finish_step(std::int64_t step, const StepRecord& record, bool whole) {
  send(text_of({{"kind", "step"}, {"step", step}, {"record", record_json(record, whole)}}));
}

void Member::report(int code, const std::string& message) {
  send(text_of({{"kind", "failed"}, {"code", code}, {"message", message}}));
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kGrace, [&] { return failure_.has_value(); });
}

void Member::ask_to_explain(const std::string& message, std::int64_t step) {
  send(text_of({{"kind", "numbers"}, {"message", message}, {"step", step}}));
}

std::optional<std::int64_t> Member::step_to_explain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return explain_ || failure_; });
  return failure_ ? std::nullopt : std::exchange(explain_, std::nullopt);
}

void Member::finish() {
  send(R"({"kind":"done"})");
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_ || failure_ || explain_; });
  if (!ended_) throw PeerFailure(failure_.value_or("another device failed"));
}

void Member::send(const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    socket_.send(text);
    if (!socket_.has_more_to_send()) return;
  }
  ::eventfd_write(wake_.number(), 1);
}

void Member::listen(const std::stop_token& done) {
  auto beat = Clock::now();
  while (!done.stop_requested()) {
    wait_for_input();
    const std::lock_guard lock(mutex_);
    socket_.flush();
    for (const std::string& text : socket_.read()) take(text);
    if (socket_.is_closed() && !ended_) call_off("the process that watches the run is gone");
    if (end_at_ && Clock::now() > *end_at_) ::_exit(kEndedByOthers);
    if (Clock::now() < beat) continue;
    beat = Clock::now() + kBetweenBeats;
    socket_.send(text_of({{"kind", "alive"}, {"at", place_ ? place_() : ""}}));
  }
}

void Member::wait_for_input() {
  std::array<struct pollfd, 2> all = {{{-1, POLLIN, 0}, {wake_.number(), POLLIN, 0}}};
  {
    const std::lock_guard lock(mutex_);
    if (!socket_.is_closed()) all[0].fd = socket_.number();
    if (socket_.has_more_to_send()) all[0].events |= POLLOUT;
  }
  ::poll(all.data(), all.size(), 200);
  eventfd_t woken = 0;
  ::eventfd_read(wake_.number(), &woken);
}

void Member::take(const std::string& text) {
  const Json message = Json::parse(text);
  const auto kind = message.at("kind").get<std::string>();
  if (kind == "given") given_.push_back(message.at("texts"));
  if (kind == "end") ended_ = true;
  if (kind == "failed") call_off(message.at("message"));
  if (kind == "explain") {
    explain_ = message.at("step").get<std::int64_t>();
    if (call_off_) call_off_("another device failed");
  }
  changed_.notify_all();
}

void Member::call_off(const std::string& reason) {
  if (!failure_) {
    failure_ = reason;
    end_at_ = Clock::now() + kGrace;
    if (call_off_) call_off_(reason);
  }
  changed_.notify_all();
}

}  // namespace meshwright
