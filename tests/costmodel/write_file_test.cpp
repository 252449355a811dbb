#include "costmodel/base/write_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <future>
#include <system_error>

#include "costmodel/base/json_input.h"
#include "tests/bad_files.h"

namespace meshwright {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

std::string text_of(const fs::path& file) { return read_text_file(file, 1_MiB); }

std::ptrdiff_t entries(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), {});
}

mode_t mode_of(const fs::path& file) {
  struct stat status {};
  REQUIRE(::lstat(file.c_str(), &status) == 0);
  return status.st_mode;
}

}  // namespace

TEST_CASE("a regular file is replaced whole or not at all, and nothing stays beside it") {
  const TemporaryFolder folder;
  const auto file = folder.write("a.txt", "old");
  struct stat before {
  }, after{};
  REQUIRE(::stat(file.c_str(), &before) == 0);
  write_text_file(file, "new");
  REQUIRE(::stat(file.c_str(), &after) == 0);
  CHECK(text_of(file) == "new");
  CHECK(after.st_ino != before.st_ino);
  CHECK_THROWS_WITH(write_text_file(folder.path() / "none" / "a.txt", "x"),
                    Contains("a.txt: cannot be written: No such file or directory"));
  CHECK_THROWS_WITH(write_text_file(folder.path(), "x"), Contains("Is a directory"));
  CHECK_THROWS_AS(write_text_file("", "x"), std::system_error);
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a file keeps its mode when it is replaced, and a new one has the usual") {
  const TemporaryFolder folder;
  const auto secret = folder.write("secret", "old");
  REQUIRE(::chmod(secret.c_str(), 0600) == 0);
  write_text_file(secret, "new");
  CHECK((mode_of(secret) & 07777) == 0600);
  const mode_t mask = ::umask(022);
  write_text_file(folder.path() / "new", "x");
  ::umask(mask);
  CHECK((mode_of(folder.path() / "new") & 07777) == 0644);
}

TEST_CASE("links are written through: the file they lead to changes, they stay") {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "there");
  const auto file = folder.write("there/a.txt", "old");
  const auto near = folder.path() / "near", far = folder.path() / "far";
  fs::create_symlink("there/a.txt", near);  // relative to the link's folder
  fs::create_symlink(near, far);
  write_text_file(far, "new");
  CHECK(text_of(file) == "new");
  CHECK(S_ISLNK(mode_of(near)));
  CHECK(S_ISLNK(mode_of(far)));
  CHECK(S_ISREG(mode_of(file)));

  SECTION("to nothing yet: it is made") {
    fs::create_symlink("there/b.txt", folder.path() / "b");
    write_text_file(folder.path() / "b", "b");
    CHECK(text_of(folder.path() / "there/b.txt") == "b");
    CHECK(S_ISLNK(mode_of(folder.path() / "b")));
  }
  SECTION("in a circle: refused") {
    fs::create_symlink("y", folder.path() / "x");
    fs::create_symlink("x", folder.path() / "y");
    CHECK_THROWS_WITH(write_text_file(folder.path() / "x", "b"),
                      Contains("Too many levels of symbolic links"));
  }
}

TEST_CASE("a pipe is written through and stays a pipe") {
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const std::string text(200'000, 'x');  // more than a pipe holds at once
  auto reader = std::async(std::launch::async, [&] {
    std::ifstream stream(pipe);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  });
  SECTION("whole") { write_text_file(pipe, text); }
  SECTION("line by line") { LineFile(pipe).add(text.substr(1)); }
  CHECK(reader.get().size() == text.size());
  CHECK(S_ISFIFO(mode_of(pipe)));
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a device is written through and stays a device") {
  const TemporaryFolder folder;
  const auto null = folder.path() / "null", full = folder.path() / "full";
  // The system's own are left alone: a failing test as root would take them away from everybody.
  if (::mknod(null.c_str(), S_IFCHR | 0666, ::makedev(1, 3)) != 0 ||
      ::mknod(full.c_str(), S_IFCHR | 0666, ::makedev(1, 7)) != 0 ||
      !std::ofstream(null).is_open()) {
    WARN("devices cannot be made here, so writing to them is not tried");
    return;
  }
  write_text_file(null, "x");
  LineFile(null).add("x");
  CHECK_THROWS_WITH(write_text_file(full, "x"), Contains("No space left on device"));
  CHECK_THROWS_WITH(LineFile(full).add("x"), Contains("No space left on device"));
  CHECK(S_ISCHR(mode_of(null)));
  CHECK(S_ISCHR(mode_of(full)));
  CHECK(entries(folder.path()) == 2);
}

TEST_CASE("a read-only file is refused, to root as well, and stays as it is") {
  const TemporaryFolder folder;
  const auto file = folder.write("a.txt", "old");
  REQUIRE(::chmod(file.c_str(), 0444) == 0);
  const auto link = folder.path() / "link";
  fs::create_symlink(file, link);
  for (const fs::path& name : {file, link}) {
    const std::string refusal = name.string() + ": is read-only: Permission denied";
    CHECK_THROWS_WITH(write_text_file(name, "new"), refusal);
    CHECK_THROWS_WITH(LineFile(name), refusal);
    CHECK_THROWS_WITH(check_writable(name), refusal);
  }
  CHECK(text_of(file) == "old");
  CHECK(entries(folder.path()) == 2);
}

TEST_CASE("somebody else's file and folder are refused") {
  if (::geteuid() != 0) return;  // only root can make them
  const TemporaryFolder folder;
  const auto file = folder.write("a.txt", "old");
  fs::create_directory(folder.path() / "closed");
  fs::permissions(folder.path() / "closed", fs::perms::owner_all | fs::perms::others_exec);
  REQUIRE(::seteuid(65534) == 0);
  CHECK_THROWS_WITH(write_text_file(file, "new"), Contains("is read-only"));
  CHECK_THROWS_WITH(write_text_file(folder.path() / "closed/b", "new"), Contains("denied"));
  CHECK_THROWS_WITH(check_writable(folder.path() / "closed/b"), Contains("denied"));
  CHECK_NOTHROW(check_writable(folder.path() / "new"));
  REQUIRE(::seteuid(0) == 0);
  CHECK(text_of(file) == "old");
}

TEST_CASE("the longest name a folder can hold is written") {
  const TemporaryFolder folder;
  const auto file = folder.path() / std::string(255, 'n');
  write_text_file(file, "once");
  write_text_file(file, "twice");
  CHECK(text_of(file) == "twice");
  CHECK_THROWS_WITH(write_text_file(folder.path() / std::string(256, 'n'), "x"),
                    Contains("File name too long"));
}

TEST_CASE("a log is emptied when it is opened, and has every line at once") {
  const TemporaryFolder folder;
  const auto file = folder.write("log", "an old and longer line\n");
  LineFile log(file);
  log.add("one");
  CHECK(text_of(file) == "one\n");
  log.add("two");
  CHECK(text_of(file) == "one\ntwo\n");
}

}  // namespace meshwright
