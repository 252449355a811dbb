#include "executor/process/member.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

#include "executor/process/machine.h"
#include "executor/process/step_record_json.h"
#include "executor/transport.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kBetweenSigns(1), kGrace(5);
constexpr int kEndedByOthers = 40;  // the exit code of a failed device

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Member::Member(FrameSocket socket, std::optional<Seconds> lost_after)
    : socket_(std::move(socket)),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      lost_after_(lost_after),
      heard_(Clock::now()) {
  send(text_of({{"kind", "join"}, {"host", host_name()}, {"process", ::getpid()}}));
  listener_ = std::jthread([this](const std::stop_token& done) { listen(done); });
}

Member::~Member() {
  listener_.request_stop();
  ::eventfd_write(wake_.number(), 1);
  listener_.join();
}

void Member::tell_place(std::function<Whereabouts()> place) {
  const std::lock_guard lock(mutex_);
  place_ = std::move(place);
}

void Member::on_call_off(std::function<void(const std::string&)> call_off) {
  const std::lock_guard lock(mutex_);
  call_off_ = std::move(call_off);
  if (failure_ && call_off_) call_off_(failure_->failure.what());
}

void Member::tell_device(DeviceId device) {
  send(text_of({{"kind", "device"}, {"index", device.index()}}));
}

std::vector<std::string> Member::exchange(const std::string& given) {
  send(text_of({{"kind", "give"}, {"text", given}}));
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !given_.empty() || failure_ || explain_; });
  if (given_.empty()) throw_given_up();
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

std::optional<std::int64_t> Member::step_to_explain(const std::string& reason) {
  std::unique_lock lock(mutex_);
  const auto known = [&] { return explain_ || failure_; };
  constexpr std::chrono::seconds kUsualTime(3);
  if (!changed_.wait_for(lock, kUsualTime, known)) {
    lock.unlock();
    send(text_of({{"kind", "unreachable"}, {"message", reason}}));
    lock.lock();
  }
  changed_.wait(lock, known);
  return failure_ ? std::nullopt : std::exchange(explain_, std::nullopt);
}

void Member::finish() {
  send(R"({"kind":"done"})");
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_ || failure_ || explain_; });
  if (!ended_) throw_given_up();
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
    check_hub();
    if (end_at_ && Clock::now() > *end_at_) ::_exit(kEndedByOthers);
    if (Clock::now() < beat) continue;
    beat = Clock::now() + kBetweenSigns;
    const Whereabouts place = place_ ? place_() : Whereabouts();
    socket_.send(text_of({{"kind", "alive"},
                          {"at", place.text},
                          {"begun", place.begun},
                          {"waits", place.waits},
                          {"longest", place.longest.value()},
                          {"clock", machine_clock().value()}}));
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

void Member::check_hub() {
  if (ended_ || failure_) return;
  if (socket_.is_closed()) {
    const std::string words = hub_name_ + " has closed its connection" + hub_words_;
    return call_off({{RunFailure::Kind::Died, words}});
  }
  const std::chrono::duration<double> silent = Clock::now() - heard_;
  if (!lost_after_ || silent.count() < lost_after_->value()) return;
  const bool cut = socket_.is_cut();
  call_off({{cut ? RunFailure::Kind::Network : RunFailure::Kind::Silent,
             fmt::format(
                 "{} {} for {:.0f} s{}", hub_name_,
                 cut ? "cannot be reached and has not been heard of" : "has given no sign of life",
                 silent.count(), hub_words_)}});
}

void Member::take(const std::string& text) {
  heard_ = Clock::now();
  const Json message = Json::parse(text);
  const auto kind = message.at("kind").get<std::string>();
  if (kind == "alive") {
    hub_name_ = message.at("name");
    hub_words_ = message.at("words");
  }
  if (kind == "given") given_.push_back(message.at("texts"));
  if (kind == "end") ended_ = true;
  if (kind == "failed") {
    const auto failure = static_cast<RunFailure::Kind>(message.at("failure").get<int>());
    call_off({{failure, message.at("message"), message.at("code")}, true});
  }
  if (kind == "explain") {
    explain_ = message.at("step").get<std::int64_t>();
    if (call_off_) call_off_("another device failed");
  }
  changed_.notify_all();
}

void Member::call_off(const CallOff& why) {
  if (!failure_) {
    failure_ = why;
    end_at_ = Clock::now() + kGrace;
    if (call_off_) call_off_(why.failure.what());
  }
  changed_.notify_all();
}

void Member::throw_given_up() const {
  throw PeerFailure(failure_ ? failure_->failure.what() : "another device failed");
}

std::optional<Member::CallOff> Member::called_off() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace meshwright
