#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "tests/cli/run_program.h"

namespace meshwright {
namespace {

// Every option that names a file to write, with the file's name left open at the end.
const std::vector<std::string> kWriters = {
    "simulate --model gpt2-tiny --cluster h100 --plan dp=2 --seq 16 --save-plan ",
    "simulate --model gpt2-tiny --cluster h100 --plan dp=2 --seq 16 --trace ",
    "run --model gpt2-tiny --plan dp=1 --seq 8 --steps 1 --trace ",
    "run --model gpt2-tiny --plan dp=1 --seq 8 --steps 1 --metrics ",
    "model gpt2-tiny --graph ",
    "profile export l40s --out "};

mode_t mode_of(const std::filesystem::path& file) {
  struct stat status {};
  REQUIRE(::lstat(file.c_str(), &status) == 0);
  return status.st_mode;
}

}  // namespace

TEST_CASE("what is written goes through pipes and links, and not over read-only files") {
  for (const std::string& writer : kWriters) {
    CAPTURE(writer);
    const TemporaryFolder folder;
    const auto pipe = folder.path() / "pipe", link = folder.path() / "link";
    const auto taken = folder.path() / "taken", locked = folder.write("locked", "old");
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    CHECK(
        run_program(writer + pipe.string(), "cat " + pipe.string() + " >" + taken.string() + " & ")
            .exit_code == 0);
    CHECK(S_ISFIFO(mode_of(pipe)));
    std::filesystem::create_symlink("target", link);
    CHECK(run_program(writer + link.string()).exit_code == 0);
    CHECK(S_ISLNK(mode_of(link)));
    CHECK(std::filesystem::file_size(folder.path() / "target") > 0);
    REQUIRE(::chmod(locked.c_str(), 0444) == 0);
    const ProgramOutput refused = run_program(writer + locked.string());
    CHECK(refused.exit_code == 44);
    CHECK_THAT(refused.err, Catch::EndsWith("locked: is read-only: Permission denied\n"));
    CHECK(std::filesystem::file_size(locked) == 3);
  }
}

}  // namespace meshwright
