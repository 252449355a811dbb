#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/bad_files.h"

namespace meshwright {

struct ProgramOutput {
  int exit_code;
  std::string out;
  std::string err;
};

// Runs the built program with arguments as a shell would read them: after `before`, and with its
// standard output in a file, or in `out`.
inline ProgramOutput run_program(const std::string& arguments, const std::string& before = "",
                                 const std::string& out = "") {
  const TemporaryFolder folder;
  const auto read = [&](const char* name) {
    std::ifstream stream(folder.path() / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  const std::string command = before + MESHWRIGHT_PROGRAM + " " + arguments + " >" +
                              (out.empty() ? (folder.path() / "out").string() : out) + " 2>" +
                              (folder.path() / "err").string();
  const int status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  return {WEXITSTATUS(status), read("out"), read("err")};
}

}  // namespace meshwright
