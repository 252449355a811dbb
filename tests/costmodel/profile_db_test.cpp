#include "costmodel/profile/profile_db.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <random>

#include "costmodel/base/input_error.h"
#include "costmodel/base/json_input.h"
#include "costmodel/profile/database_error.h"
#include "costmodel/profile/profile_file.h"
#include "tests/bad_files.h"
#include "tests/costmodel/profile_examples.h"
#include "tests/test_scale.h"

namespace meshwright {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

std::string bytes_of(const fs::path& file) { return read_text_file(file, 64_MiB); }

fs::path written(const TemporaryFolder& folder, const Profile& profile) {
  const fs::path file = folder.path() / "p.db";
  ProfileDb(file).add(profile);
  return file;
}

// Neither reading nor writing gets anywhere, and the file stays as it is.
void check_refused(const fs::path& file, const std::string& message) {
  const std::string before = bytes_of(file);
  CHECK_THROWS_WITH(ProfileDb::read(file), Contains(file.string() + ": ") && Contains(message));
  CHECK_THROWS_WITH(ProfileDb(file), Contains(file.string() + ": ") && Contains(message));
  CHECK(bytes_of(file) == before);
}

// What a bad file may do: say the truth or refuse.
void check_honest(const fs::path& file, const Profile& truth) {
  const std::string before = bytes_of(file);
  try {
    const Profile found = ProfileDb::read(file);
    CHECK(found == truth);
  } catch (const InputError&) {
  } catch (const DatabaseError& error) {
    CHECK(error.kind() == DatabaseError::Kind::Damaged);
  }
  CHECK(bytes_of(file) == before);
}

void exec(const fs::path& file, const std::string& statement) {
  SQLite::Database(file, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec(statement);
}

}  // namespace

TEST_CASE("a profile survives its database, together with what was there before") {
  const TemporaryFolder folder;
  const Profile profile = small_profile();
  const fs::path file = written(folder, profile);
  CHECK(ProfileDb::read(file) == profile);
  CHECK(read_profile(file) == profile);

  Profile more;
  more.provenances = {{"lab", "", "a paper"}};
  more.kernels = {kernel_time(KernelKind::Add, {64}, 1.0)};
  ProfileDb database(file);
  database.add(more);
  CHECK(database.read() == merged(profile, more));
  CHECK(ProfileDb::read(file) == merged(profile, more));
}

TEST_CASE("adding to a database is merging: the later measurement stays") {
  const TemporaryFolder folder;
  Profile old = small_profile(), newer = small_profile();
  for (KernelTime& row : old.kernels) row.evidence.date = "2020-01-01";
  newer.kernels[0].evidence.date = "2027-01-01";
  newer.kernels[0].time = Seconds(9);
  const fs::path file = written(folder, small_profile());
  ProfileDb(file).add(old);
  CHECK(ProfileDb::read(file) == merged(small_profile(), old));
  CHECK(ProfileDb::read(file) == small_profile());
  ProfileDb(file).add(newer);
  CHECK(ProfileDb::read(file) == merged(small_profile(), newer));
}

TEST_CASE("the file is marked as ours, has a log and syncs fully") {
  const TemporaryFolder folder;
  const fs::path file = written(folder, small_profile());
  SQLite::Database database(file);
  CHECK(database.execAndGet("PRAGMA application_id").getInt64() == 0x6d657368);
  CHECK(database.execAndGet("PRAGMA user_version").getInt() == ProfileDb::kVersion);
  CHECK(database.execAndGet("PRAGMA journal_mode").getString() == "wal");
  CHECK(fs::directory_iterator(folder.path()) != fs::directory_iterator());
}

TEST_CASE("what is not a profile is refused by what it is, and never changed") {
  const TemporaryFolder folder;
  check_refused(folder.write("text.db", "measured: 7 ms, and more text than a header has"),
                "is not a profile");
  check_refused(folder.write("empty.db", ""), "is not a profile");

  const fs::path foreign = folder.path() / "foreign.db";
  exec(foreign, "CREATE TABLE mine (x)");
  check_refused(foreign, "is an SQLite file of another program");
  exec(foreign, "PRAGMA journal_mode = WAL");
  check_refused(foreign, "is an SQLite file of another program");

  const fs::path newer = written(folder, small_profile());
  exec(newer, "PRAGMA user_version = 2");
  check_refused(newer, "is a profile of version 2; this program knows versions up to 1");

  const fs::path missing = folder.path() / "none" / "p.db";
  CHECK_THROWS_AS(ProfileDb::read(missing), InputError);
  CHECK_THROWS_AS(ProfileDb(missing), DatabaseError);
  CHECK_THROWS_WITH(ProfileDb(folder.path()), Contains("is a directory, expected a profile"));
  CHECK_THROWS_WITH(ProfileDb::read("/dev/null"), "/dev/null: is not a regular file");
}

TEST_CASE("a profile with another schema is refused as damaged") {
  const TemporaryFolder folder;
  for (const char* change :
       {"CREATE VIEW extra AS SELECT 1", "CREATE TABLE extra (x)", "DROP TABLE links",
        "CREATE TRIGGER t AFTER INSERT ON links BEGIN DELETE FROM kernels; END",
        "ALTER TABLE links RENAME COLUMN a TO c"}) {
    CAPTURE(change);
    const fs::path file = written(folder, small_profile());
    exec(file, change);
    check_refused(file, "the profile is damaged: its tables are not those of a profile");
    fs::remove(file);
  }
}

TEST_CASE("a row that changed under its checksum is found") {
  const TemporaryFolder folder;
  for (const char* change : {"UPDATE kernels SET time_s = 0.34 WHERE shape = '64x64x64'",
                             "UPDATE provenances SET machine = 'x' WHERE machine = 'lab'",
                             "UPDATE links SET checksum = 1"}) {
    CAPTURE(change);
    const fs::path file = written(folder, small_profile());
    exec(file, change);
    CHECK_THROWS_WITH(ProfileDb::read(file), Contains("has changed"));
    fs::remove(file);
  }
}

TEST_CASE("damaged and truncated files give the truth or an error, and never change") {
  const TemporaryFolder folder;
  Profile profile = small_profile();
  for (std::int64_t i = 1; i <= 60; ++i) {
    profile.kernels.push_back(kernel_time(KernelKind::Add, {i}, 1e-6 * static_cast<double>(i)));
  }
  profile = sorted(profile);
  const std::string golden = bytes_of(written(folder, profile));
  REQUIRE(!fs::exists(folder.path() / "p.db-wal"));

  for (std::size_t size = 0; size < golden.size(); size += 512) {
    CAPTURE(size);
    check_honest(folder.write("cut.db", golden.substr(0, size)), profile);
  }
  std::mt19937 random(11);
  for (int i = 0; i < cases(400, 5000); ++i) {
    std::string bytes = golden;
    const std::size_t at = random() % golden.size(), bit = random() % 8;
    CAPTURE(i, at, bit);
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
    check_honest(folder.write("flipped.db", bytes), profile);
  }
}

TEST_CASE("a page in another one's place is found: no row is lost in silence") {
  const TemporaryFolder folder;
  Profile profile = small_profile();
  for (std::int64_t i = 1; i <= 600; ++i) {
    profile.kernels.push_back(kernel_time(KernelKind::Add, {i}, 1e-6 * static_cast<double>(i)));
  }
  profile = sorted(profile);
  const std::string golden = bytes_of(written(folder, profile));
  constexpr std::size_t kPage = 4096;
  const std::size_t pages = golden.size() / kPage;
  REQUIRE(pages > 20);
  std::mt19937 random(7);
  for (int i = 0; i < cases(300, 2000); ++i) {
    const std::size_t from = random() % pages, to = random() % pages;
    CAPTURE(from, to);
    std::string bytes = golden;
    bytes.replace(to * kPage, kPage, golden, from * kPage, kPage);
    check_honest(folder.write("copied.db", bytes), profile);
  }
}

TEST_CASE("a file that may not be written is read, and not written") {
  const TemporaryFolder folder;
  const fs::path file = written(folder, small_profile());
  constexpr auto kRead = fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read;
  fs::permissions(file, kRead);
  const bool root = ::geteuid() == 0;
  if (root) REQUIRE(::seteuid(65534) == 0);
  CHECK(ProfileDb::read(file) == small_profile());
  CHECK_THROWS_WITH(ProfileDb(file), file.string() + ": cannot be written: Permission denied");
  if (root) REQUIRE(::seteuid(0) == 0);
  CHECK_THROWS_WITH(ProfileDb(file), file.string() + ": cannot be written: Permission denied");
  // Nor in a folder where SQLite cannot make its index of the log, as where programs are installed.
  constexpr auto kEnter = fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
  fs::permissions(folder.path(), kRead | kEnter);
  if (root) REQUIRE(::seteuid(65534) == 0);
  CHECK(ProfileDb::read(file) == small_profile());
  if (root) REQUIRE(::seteuid(0) == 0);
  fs::permissions(folder.path(), fs::perms::all);
}

TEST_CASE("network file systems are known by their numbers") {
  CHECK(is_network_file_system(0x6969));
  CHECK(is_network_file_system(static_cast<std::int32_t>(0xff534d42)));
  CHECK(!is_network_file_system(0xef53));      // ext4
  CHECK(!is_network_file_system(0x01021994));  // tmpfs
}

}  // namespace meshwright
