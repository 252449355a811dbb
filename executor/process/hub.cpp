#include "executor/process/hub.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cassert>
#include <nlohmann/json.hpp>

#include "executor/process/machine.h"
#include "executor/process/step_record_json.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::seconds kBetweenBeats(1);

}  // namespace

Hub::Hub(std::size_t processes, HubOptions options, const StepProgress& progress)
    : options_(std::move(options)), results_(processes, progress), processes_(processes) {
  for (std::size_t p = 0; p < processes; ++p) processes_[p].device = DeviceId(p);
}

void Hub::add(std::size_t process, FrameSocket socket) {
  processes_[process].socket.emplace(std::move(socket));
  processes_[process].heard = Clock::now();
}

RunResult Hub::run() {
  for (;;) {
    wait();
    // All that has come is read before anybody counts as silent: this process may itself have been
    // stopped for a while.
    for (std::size_t p = 0; p < processes_.size(); ++p) read(p);
    for (std::size_t p = 0; p < processes_.size(); ++p) check_silence(p);
    check_progress();
    if (std::ranges::all_of(processes_, &Process::done)) break;
    greet();
  }
  send_all(R"({"kind":"end"})");
  wait_for_leaving(std::chrono::seconds(5));
  return results_.take();
}

void Hub::greet() {
  if (Clock::now() < next_greeting_) return;
  next_greeting_ = Clock::now() + kBetweenBeats;
  Json greeting = {{"kind", "alive"}, {"name", "the process that watches the run"}, {"words", ""}};
  if (options_.self) {
    const Process& self = processes_[*options_.self];
    greeting["name"] = name_of(self) + ", which watches the run,";
    greeting["words"] = last_words(self);
  }
  send_all(greeting.dump());
}

void Hub::wait() const {
  std::vector<struct pollfd> sockets;
  for (const Process& process : processes_) {
    if (process.done && !process.socket->has_more_to_send()) continue;
    const short events = process.socket->has_more_to_send() ? POLLIN | POLLOUT : POLLIN;
    sockets.push_back({process.socket->number(), events, 0});
  }
  ::poll(sockets.data(), sockets.size(), 200);
}

void Hub::read(std::size_t process) {
  Process& self = processes_[process];
  self.socket->flush();
  if (self.done) return;
  for (const std::string& text : self.socket->read()) take(process, text);
  if (!self.socket->is_closed() || self.done) return;
  if (first_) end_with(*first_);
  const std::string how =
      options_.how_ended ? options_.how_ended(process) : "has closed its connection";
  end_with({RunFailure::Kind::Died, fmt::format("{} {}{}", name_of(self), how, last_words(self))});
}

void Hub::take(std::size_t process, const std::string& text) {
  Process& self = processes_[process];
  self.heard = Clock::now();
  Json message;
  try {
    message = Json::parse(text);
    const auto kind = message.at("kind").get<std::string>();
    if (kind == "join") {
      self.where = fmt::format("process {} on host {}", message.at("process").get<std::int64_t>(),
                               message.at("host").get<std::string>());
      next_greeting_ = {};  // the others may want to know it by name
    } else if (kind == "device") {
      self.device = DeviceId(message.at("index").get<std::size_t>());
    } else if (kind == "give") {
      take_given(process, message.at("text"));
    } else if (kind == "alive") {
      const Whereabouts place{message.at("at"), message.at("begun"), message.at("waits"),
                              Seconds(message.at("longest").get<double>())};
      if (place.begun != self.place.begun) self.moved = self.heard;
      self.place = place;
      const Seconds behind = machine_clock() - Seconds(message.at("clock").get<double>());
      self.behind = self.behind ? std::min(*self.behind, behind) : behind;
    } else if (kind == "step") {
      take_step(process, message.at("step"), record_from(message.at("record"), self.device));
    } else if (kind == "unreachable") {
      end_with({RunFailure::Kind::Network,
                fmt::format("{}: {}", name_of(self), message.at("message").get<std::string>())});
    } else if (kind == "failed") {
      end_with({RunFailure::Kind::Reported, message.at("message"), message.at("code")});
    } else if (kind == "numbers") {
      have_explained(message.at("step"), message.at("message"));
    } else {
      self.done = kind == "done";
    }
  } catch (const Json::exception& error) {
    end_with({RunFailure::Kind::Network,
              fmt::format("{} sent what nobody understands: {}", name_of(self), error.what())});
  }
}

// All times by this process's clock. Processes of one machine have the same one.
void Hub::take_step(std::size_t process, std::int64_t step, StepRecord record) {
  Process& self = processes_[process];
  self.finished = step + 1;
  constexpr Seconds kMessageTime(0.005);
  if (self.behind && (*self.behind > kMessageTime || *self.behind < Seconds())) {
    for (TaskSpan& span : record.timeline.tasks) {
      span = {span.start + *self.behind, span.finish + *self.behind};
    }
    for (MemorySample& sample : record.timeline.memory) sample.time += *self.behind;
  }
  results_.finish(step, process, std::move(record));
}

void Hub::take_given(std::size_t process, std::string text) {
  given_[process] = std::move(text);
  if (given_.size() < processes_.size()) return;
  Json reply = {{"kind", "given"}, {"texts", Json::array()}};
  for (auto& [giver, given] : given_) reply["texts"].push_back(std::move(given));
  given_.clear();
  send_all(reply.dump());
}

// The first process that finds such numbers has all run the step again.
void Hub::have_explained(std::int64_t step, const std::string& message) {
  if (first_) return;
  first_.emplace(RunFailure::Kind::Numerical, message);
  given_.clear();
  for (Process& process : processes_) process.done = false;
  send_all(Json({{"kind", "explain"}, {"step", step}}).dump());
}

void Hub::check_silence(std::size_t process) {
  const Process& self = processes_[process];
  const std::chrono::duration<double> silent = Clock::now() - self.heard;
  if (self.done || silent.count() < options_.limits.lost_after.value()) return;
  const bool cut = self.socket->is_cut();
  end_with({cut ? RunFailure::Kind::Network : RunFailure::Kind::Silent,
            fmt::format(
                "{} {} for {:.0f} s{}", name_of(self),
                cut ? "cannot be reached and has not been heard of" : "has given no sign of life",
                silent.count(), last_words(self))});
}

bool Hub::is_at_one_task_too_long(const Process& process) const {
  const std::chrono::duration<double> there = process.heard - process.moved;
  return !process.done && process.place.begun > 0 &&
         Seconds(there.count()) > options_.limits.stuck_after + process.place.longest;
}

// Whoever does not wait for others is stuck by itself. Those that do are so only if all are.
void Hub::check_progress() {
  const Process* stuck = nullptr;
  bool all = true;
  for (const Process& process : processes_) {
    const bool too_long = is_at_one_task_too_long(process);
    all = all && (process.done || too_long);
    if (too_long && (stuck == nullptr || stuck->place.waits)) stuck = &process;
  }
  if (stuck == nullptr || (stuck->place.waits && !all)) return;
  const std::chrono::duration<double> there = stuck->heard - stuck->moved;
  end_with({RunFailure::Kind::Silent,
            fmt::format("{} {}: for {:.0f} s it has been at {}{}", name_of(*stuck),
                        stuck->place.waits ? "waits, as all others do, and none comes further"
                                           : "lives but comes no further",
                        there.count(), stuck->place.text, steps_of(*stuck))});
}

void Hub::end_with(const RunFailure& failure) {
  send_all(Json({{"kind", "failed"},
                 {"failure", failure.kind()},
                 {"code", failure.code()},
                 {"message", failure.what()}})
               .dump(-1, ' ', false, Json::error_handler_t::replace));
  wait_for_leaving(std::chrono::milliseconds(300));
  throw failure;
}

// A connection that is closed with something unread in it may take along what was sent last.
void Hub::wait_for_leaving(std::chrono::milliseconds limit) {
  for (const auto end = Clock::now() + limit; Clock::now() < end;) {
    std::vector<struct pollfd> sockets;
    for (Process& process : processes_) {
      if (!process.socket || process.socket->is_closed()) continue;
      process.socket->flush();
      process.socket->read();
      sockets.push_back({process.socket->number(), POLLIN, 0});
    }
    if (sockets.empty()) return;
    ::poll(sockets.data(), sockets.size(), 20);
  }
}

void Hub::send_all(const std::string& text) {
  for (Process& process : processes_) {
    if (process.socket && !process.socket->is_closed()) process.socket->send(text);
  }
}

std::string Hub::name_of(const Process& process) {
  const std::string name = fmt::format("device {}", process.device.index());
  return process.where.empty() ? name : fmt::format("{} ({})", name, process.where);
}

std::string Hub::steps_of(const Process& process) {
  if (process.finished == 0) return "; it had finished no step";
  return fmt::format("; the last step it finished is {}", process.finished - 1);
}

std::string Hub::last_words(const Process& process) {
  const std::string& at = process.place.text;
  return steps_of(process) + (at.empty() ? "" : ", and when last heard of it was at " + at);
}

}  // namespace meshwright
