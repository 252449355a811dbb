#include "executor/process/hub.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cassert>
#include <nlohmann/json.hpp>

#include "executor/process/step_record_json.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::seconds kBetweenBeats(1);

std::vector<std::size_t> indices_of(const Json& group) {
  return group.get<std::vector<std::size_t>>();
}

}  // namespace

Hub::Hub(std::vector<DeviceId> devices, HubOptions options, const StepProgress& progress)
    : devices_(std::move(devices)),
      options_(std::move(options)),
      results_(devices_.size(), progress),
      processes_(devices_.size()) {
  for (std::size_t p = 0; p < processes_.size(); ++p) {
    processes_[p].name = fmt::format("device {}", devices_[p].index());
  }
}

void Hub::add(std::size_t process, FrameSocket socket) {
  processes_[process].socket.emplace(std::move(socket));
  processes_[process].heard = Clock::now();
}

RunResult Hub::run() {
  auto beat = Clock::now();
  for (;;) {
    wait();
    // All that has come is read before anybody counts as silent: this process may itself have been
    // stopped for a while.
    for (std::size_t p = 0; p < processes_.size(); ++p) read(p);
    for (std::size_t p = 0; p < processes_.size(); ++p) check_silence(p);
    if (std::ranges::all_of(processes_, &Process::done)) break;
    if (Clock::now() < beat) continue;
    beat = Clock::now() + kBetweenBeats;
    send_all(R"({"kind":"alive"})");
  }
  send_all(R"({"kind":"end"})");
  return results_.take();
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
  end_with({RunFailure::Kind::Died, fmt::format("{} {}{}", self.name, how, last_words(self))});
}

void Hub::take(std::size_t process, const std::string& text) {
  Process& self = processes_[process];
  self.heard = Clock::now();
  Json message;
  try {
    message = Json::parse(text);
    const auto kind = message.at("kind").get<std::string>();
    if (kind == "join") {
      self.name = fmt::format("device {} (process {} on host {})", devices_[process].index(),
                              message.at("process").get<std::int64_t>(),
                              message.at("host").get<std::string>());
    } else if (kind == "give") {
      take_given(process, indices_of(message.at("group")), message.at("text"));
    } else if (kind == "alive") {
      self.at = message.at("at");
    } else if (kind == "step") {
      self.finished = message.at("step").get<std::int64_t>() + 1;
      results_.finish(self.finished - 1, process,
                      record_from(message.at("record"), devices_[process]));
    } else if (kind == "failed") {
      end_with({RunFailure::Kind::Reported, message.at("message"), message.at("code")});
    } else if (kind == "numbers") {
      have_explained(message.at("step"), message.at("message"));
    } else {
      self.done = kind == "done";
    }
  } catch (const Json::exception& error) {
    end_with({RunFailure::Kind::Network,
              fmt::format("{} sent what nobody understands: {}", self.name, error.what())});
  }
}

void Hub::take_given(std::size_t process, const std::vector<std::size_t>& group, std::string text) {
  auto& given = given_[group];
  given[devices_[process].index()] = std::move(text);
  if (given.size() < group.size()) return;
  Json reply = {{"kind", "given"}, {"texts", Json::array()}};
  for (const std::size_t device : group) reply["texts"].push_back(given.at(device));
  given_.erase(group);
  const std::string all = reply.dump();
  for (std::size_t p = 0; p < processes_.size(); ++p) {
    if (std::ranges::find(group, devices_[p].index()) != group.end()) {
      processes_[p].socket->send(all);
    }
  }
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
  if (self.done || silent.count() < options_.lost_after.value()) return;
  end_with({RunFailure::Kind::Silent, fmt::format("{} has given no sign of life for {:.0f} s{}",
                                                  self.name, silent.count(), last_words(self))});
}

void Hub::end_with(const RunFailure& failure) {
  send_all(Json({{"kind", "failed"}, {"message", failure.what()}})
               .dump(-1, ' ', false, Json::error_handler_t::replace));
  throw failure;
}

void Hub::send_all(const std::string& text) {
  for (Process& process : processes_) {
    if (!process.socket->is_closed()) process.socket->send(text);
  }
}

std::string Hub::last_words(const Process& process) const {
  std::string words = process.finished == 0
                          ? "; it had finished no step"
                          : fmt::format("; the last step it finished is {}", process.finished - 1);
  if (!process.at.empty()) words += ", and when last heard of it was at " + process.at;
  return words;
}

}  // namespace meshwright
