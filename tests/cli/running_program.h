#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/bad_files.h"

namespace meshwright {

// Far beyond what anything here takes on a machine that works.
inline constexpr std::chrono::seconds kLongWait(60);

// Whether it comes true in time.
inline bool comes_true(const std::function<bool()>& condition,
                       std::chrono::milliseconds limit = kLongWait) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// Whether a shell finds the command.
inline bool is_there(const std::string& command) {
  return std::system(("command -v " + command + " >/dev/null 2>&1").c_str()) == 0;
}

// A command that runs beside the test, and is killed with it.
class RunningProgram {
 public:
  // The words after "exec" are a shell's.
  explicit RunningProgram(const std::string& command) {
    const std::string line =
        "exec " + command + " >" + file("out").string() + " 2>" + file("err").string();
    id_ = ::fork();
    if (id_ == 0) {
      ::setpgid(0, 0);
      ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      ::_exit(127);
    }
  }
  ~RunningProgram() {
    if (!code_) ::kill(-id_, SIGKILL), ::waitpid(id_, nullptr, 0);
  }
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  pid_t id() const { return id_; }
  std::string out() const { return text_of(file("out")); }
  std::string err() const { return text_of(file("err")); }

  // The exit code, 128 + n where signal n ended it. None: it still runs after so long.
  std::optional<int> wait(std::chrono::milliseconds limit = kLongWait) {
    comes_true(
        [&] {
          int status = 0;
          if (code_ || ::waitpid(id_, &status, WNOHANG) != id_) return code_.has_value();
          code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
          return true;
        },
        limit);
    return code_;
  }

 private:
  std::filesystem::path file(const char* name) const { return folder_.path() / name; }
  static std::string text_of(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  TemporaryFolder folder_;
  pid_t id_ = 0;
  std::optional<int> code_;
};

// What the system says of a process; empty where it ends meanwhile, which makes reading fail.
inline std::string status_of(const std::string& process) {
  const std::ifstream stream("/proc/" + process + "/stat");
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// The processes that a process has started and that still run, in the order of their numbers.
inline std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; })) continue;
    const std::string text = status_of(name);
    const auto end = text.rfind(')');  // of the name, which may have any characters
    if (end == std::string::npos) continue;
    std::istringstream rest(text.substr(end + 1));
    char state = 0;
    pid_t of = 0;
    if (rest >> state >> of && of == parent && state != 'Z') found.push_back(std::stoi(name));
  }
  std::ranges::sort(found);
  return found;
}

inline bool is_gone(pid_t process) {
  const std::string text = status_of(std::to_string(process));
  const auto end = text.rfind(')');
  return end == std::string::npos || text.substr(end, 3) == ") Z";
}

inline bool are_gone(const std::vector<pid_t>& processes) {
  return std::ranges::all_of(processes, is_gone);
}

// What a process listens at, as the system shows it: "0100007F:1F90" is port 8080 of 127.0.0.1.
inline std::vector<std::string> listening_sockets(pid_t process) {
  std::set<std::string> own;
  const std::string folder = "/proc/" + std::to_string(process);
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:[")) own.insert(target.substr(8, target.size() - 9));
  }
  std::vector<std::string> found;
  for (const char* const table : {"/net/tcp", "/net/tcp6"}) {
    std::ifstream stream(folder + table);
    for (std::string line; std::getline(stream, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state, skipped, inode;
      words >> number >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) words >> skipped;
      words >> inode;
      if (state == "0A" && own.contains(inode)) found.push_back(local);
    }
  }
  return found;
}

}  // namespace meshwright
