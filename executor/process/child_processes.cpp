#include "executor/process/child_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>

#include "executor/environment_error.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kVariable = "MESHWRIGHT_PROCESS";  // "process/count/number of the connection"

std::vector<std::string> own_words() {
  std::ifstream stream("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(stream, word, '\0');) words.push_back(word);
  return words;
}

std::vector<std::string> environment_with(const std::string& variable) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with(std::string(kVariable) + "=")) all.push_back(*entry);
  }
  all.push_back(std::string(kVariable) + "=" + variable);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Between fork and exec only the system may be called.
[[noreturn]] void become_child(int connection, pid_t parent, const char* program, char** words,
                               char** environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it has ended meanwhile
  ::setsid();                             // what the terminal says is for the one that watches
  ::fcntl(connection, F_SETFD, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(program, words, environment);
  ::_exit(127);
}

}  // namespace

std::optional<ChildPlace> child_place() {
  const char* const text = std::getenv(kVariable);
  if (text == nullptr) return std::nullopt;
  ChildPlace place;
  int end = 0;
  const int found =
      std::sscanf(text, "%zu/%zu/%d%n", &place.process, &place.count, &place.connection, &end);
  struct sockaddr_storage peer {};
  socklen_t size = sizeof peer;
  if (found != 3 || text[end] != '\0' || place.process >= place.count ||
      ::getpeername(place.connection, reinterpret_cast<sockaddr*>(&peer), &size) != 0) {
    throw EnvironmentError(fmt::format(
        "{} is set by `run --processes` for processes it starts, and by nobody else", kVariable));
  }
  ::fcntl(place.connection, F_SETFD, FD_CLOEXEC);
  return place;
}

ChildProcesses::ChildProcesses(std::size_t count) {
  const std::vector<std::string> words = own_words();
  try {
    for (std::size_t p = 0; p < count; ++p) start(p, count, words);
  } catch (...) {
    kill_rest();
    throw;
  }
}

ChildProcesses::~ChildProcesses() { kill_rest(); }

void ChildProcesses::start(std::size_t process, std::size_t count,
                           const std::vector<std::string>& words) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::system_error(errno, std::generic_category(), "a connection cannot be made");
  }
  FileDescriptor own(ends[0]), other(ends[1]);
  std::vector<std::string> arguments = words;
  std::vector<std::string> variables =
      environment_with(fmt::format("{}/{}/{}", process, count, other.number()));
  const auto argument_pointers = pointers_to(arguments), variable_pointers = pointers_to(variables);
  const pid_t self = ::getpid(), child = ::fork();
  if (child == 0) {
    become_child(other.number(), self, "/proc/self/exe",
                 const_cast<char**>(argument_pointers.data()),
                 const_cast<char**>(variable_pointers.data()));
  }
  if (child < 0) {
    throw std::system_error(errno, std::generic_category(),
                            fmt::format("process {} of {} cannot be started", process, count));
  }
  children_.push_back({.id = child, .connection = std::move(own)});
}

FrameSocket ChildProcesses::take_connection(std::size_t process) {
  return FrameSocket(std::move(*children_[process].connection));
}

bool ChildProcesses::has_ended(Child& child) {
  int status = 0;
  if (!child.status && ::waitpid(child.id, &status, WNOHANG) == child.id) child.status = status;
  return child.status.has_value();
}

std::string ChildProcesses::how_ended(std::size_t process) {
  Child& child = children_[process];
  for (const auto end = Clock::now() + 2s; !has_ended(child) && Clock::now() < end;) {
    std::this_thread::sleep_for(10ms);
  }
  if (!child.status) return "has closed its connection";
  if (WIFSIGNALED(*child.status)) {
    const int signal = WTERMSIG(*child.status);
    return fmt::format("was killed by signal {} ({})", signal, ::strsignal(signal));
  }
  return fmt::format("ended with code {}", WEXITSTATUS(*child.status));
}

bool ChildProcesses::have_all_ended() {
  bool all = true;
  for (Child& child : children_) all &= has_ended(child);
  return all;
}

void ChildProcesses::wait_for_all(Seconds limit) {
  const auto end = Clock::now() + std::chrono::duration<double>(limit.value());
  while (!have_all_ended() && Clock::now() < end) std::this_thread::sleep_for(5ms);
  kill_rest();
}

void ChildProcesses::kill_rest() {
  for (Child& child : children_) {
    if (!has_ended(child)) ::kill(child.id, SIGKILL);
  }
  for (Child& child : children_) {
    int status = 0;
    if (!child.status && ::waitpid(child.id, &status, 0) == child.id) child.status = status;
  }
}

}  // namespace meshwright
