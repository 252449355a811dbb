#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <random>
#include <set>

#include "costmodel/profile/profile_db.h"
#include "tests/bad_files.h"
#include "tests/costmodel/profile_examples.h"
#include "tests/test_scale.h"

// Real processes that write one profile at the same time, and die.
namespace meshwright {
namespace {

namespace fs = std::filesystem;

Profile one_row(int writer, std::int64_t number) {
  Profile profile;
  profile.provenances = {{"writer " + std::to_string(writer), "", "test"}};
  profile.kernels = {kernel_time(KernelKind::Add, {number}, 1e-3 * static_cast<double>(number))};
  return profile;
}

// Runs `work` in a process of its own, which ends with 0 if it returns.
pid_t start(const std::function<void()>& work) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child > 0) return child;
  try {
    work();
    ::_exit(0);
  } catch (const std::exception& error) {
    const std::string text = std::string(error.what()) + "\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
    ::_exit(1);
  }
}

}  // namespace

TEST_CASE("eight processes make and write one profile at the same time") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "p.db";
  constexpr int kWriters = 8;
  const int rows = cases(20, 500);
  std::vector<pid_t> children;
  for (int writer = 0; writer < kWriters; ++writer) {
    children.push_back(start([&] {
      ProfileDb database(file);
      for (int i = 1; i <= rows; ++i) database.add(one_row(writer, i));
    }));
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
  Profile expected;
  for (int writer = 0; writer < kWriters; ++writer) {
    for (int i = 1; i <= rows; ++i) {
      const Profile row = one_row(writer, i);
      expected.kernels.push_back(row.kernels[0]);
      expected.kernels.back().evidence.provenance = expected.provenances.size();
      expected.provenances.push_back(row.provenances[0]);
    }
  }
  CHECK(ProfileDb::read(file) == sorted(expected));
  // Nothing is left of the making.
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    CHECK(entry.path().string().find(".meshwright-") == std::string::npos);
  }
}

TEST_CASE("a writer that is killed loses nothing it acknowledged") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "p.db";
  std::mt19937 random(3);
  for (int round = 0; round < cases(12, 100); ++round) {
    CAPTURE(round);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = start([&] {
      ProfileDb database(file);
      for (std::int64_t i = 1;; ++i) {
        database.add(one_row(round, i));
        if (::write(ends[1], &i, sizeof(i)) != sizeof(i)) return;
      }
    });
    ::close(ends[1]);
    // Killed somewhere in the middle of whatever it does after so many rows.
    std::int64_t acknowledged = 0;
    const auto enough = static_cast<std::int64_t>(1 + random() % 8);
    while (acknowledged < enough) {
      REQUIRE(::read(ends[0], &acknowledged, sizeof(acknowledged)) == sizeof(acknowledged));
    }
    ::usleep(static_cast<useconds_t>(random() % 3000));
    REQUIRE(::kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    for (std::int64_t i = 0; ::read(ends[0], &i, sizeof(i)) == sizeof(i);) acknowledged = i;
    ::close(ends[0]);

    const Profile found = ProfileDb::read(file);
    std::set<std::int64_t> rows;
    for (const KernelTime& row : found.kernels) {
      const std::string& machine = found.provenances[row.evidence.provenance].machine;
      if (machine != "writer " + std::to_string(round)) continue;
      rows.insert(row.shape[0]);
      CHECK(row.time == one_row(round, row.shape[0]).kernels[0].time);
    }
    const auto count = static_cast<std::int64_t>(rows.size());
    CHECK(*rows.rbegin() == count);
    // At most the one that was stored and not yet acknowledged is there too.
    CHECK((count == acknowledged || count == acknowledged + 1));
  }
}

}  // namespace meshwright
