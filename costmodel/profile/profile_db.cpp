#include "costmodel/profile/profile_db.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <new>
#include <system_error>

#include "costmodel/base/input_error.h"
#include "costmodel/base/write_file.h"
#include "costmodel/profile/database_error.h"
#include "costmodel/profile/profile_schema.h"

namespace meshwright {
namespace {

namespace fs = std::filesystem;

constexpr int kBusyMilliseconds = 30'000;

std::string named(const fs::path& file, std::string_view problem) {
  return fmt::format("{}: {}", printable(file.string()), problem);
}

[[noreturn]] void throw_damaged(const fs::path& file, std::string_view problem) {
  throw DatabaseError(
      DatabaseError::Kind::Damaged,
      named(file, fmt::format("the profile is damaged: {}; it was not changed. Use a copy, or save "
                              "what is readable: sqlite3 FILE .recover",
                              printable(problem))));
}

[[noreturn]] void throw_unavailable(const fs::path& file, std::string_view problem) {
  throw DatabaseError(DatabaseError::Kind::Unavailable, named(file, problem));
}

// Turns what SQLite says into what a caller can act on.
[[noreturn]] void rethrow(const SQLite::Exception& error, const fs::path& file) {
  switch (error.getErrorCode()) {
    case SQLITE_NOMEM:
      throw std::bad_alloc();
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      throw_unavailable(file, "is locked by another program, and stayed so for 30 s");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
      throw_unavailable(file, fmt::format("cannot be opened: {} (the folder must be writable too)",
                                          error.what()));
    case SQLITE_FULL:
      throw std::system_error(ENOSPC, std::generic_category(),
                              named(file, "cannot be written; what was stored before is safe"));
    case SQLITE_IOERR:
      throw std::system_error(EIO, std::generic_category(), named(file, error.what()));
    default:
      throw_damaged(file, error.what());
  }
}

template <class Use>
auto guarded(const fs::path& file, Use use) {
  try {
    return use();
  } catch (const SQLite::Exception& error) {
    rethrow(error, file);
  }
}

void check_file(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    throw InputError(named(file, fmt::format("cannot be read: {}", std::strerror(errno))));
  }
  if (S_ISDIR(status.st_mode)) throw InputError(named(file, "is a directory, expected a profile"));
  if (!S_ISREG(status.st_mode)) throw InputError(named(file, "is not a regular file"));
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    throw InputError(named(file, fmt::format("cannot be read: {}", std::strerror(errno))));
  }
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  std::array<char, 16> start{};
  stream.read(start.data(), start.size());
  if (std::string_view(start.data(), start.size()) != kMagic) {
    throw InputError(
        named(file, "is not a profile (an SQLite file or JSON written by meshwright)"));
  }
}

void check_file_system(const fs::path& file) {
  struct statfs status {};
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (::statfs(folder.c_str(), &status) != 0 || !is_network_file_system(status.f_type)) return;
  throw_unavailable(file,
                    "is on a network file system, where its locks are not safe; copy it to a "
                    "local disk");
}

std::int64_t pragma(SQLite::Database& database, const char* query) {
  SQLite::Statement statement(database, query);
  statement.executeStep();
  return statement.getColumn(0).getInt64();
}

// Settings of a connection that may meet a file made to do harm.
void harden(SQLite::Database& database) {
  sqlite3* handle = database.getHandle();
  sqlite3_extended_result_codes(handle, 0);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, 16 << 20);
  sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0);
}

// Ours, of a version we know, and whole.
void check_contents(SQLite::Database& database, const fs::path& file) {
  if (pragma(database, "PRAGMA application_id") != kProfileApplication) {
    throw InputError(named(file, "is an SQLite file of another program, not a profile"));
  }
  const std::int64_t version = pragma(database, "PRAGMA user_version");
  if (version > ProfileDb::kVersion) {
    throw InputError(named(file, fmt::format("is a profile of version {}; this program knows "
                                             "versions up to {}: a newer one is needed",
                                             version, ProfileDb::kVersion)));
  }
  if (version < 1) throw_damaged(file, fmt::format("version {}", version));
  // Not quick_check, which does not see a page in another one's place: its rows would be lost. 40
  // ms for 100,000 rows.
  SQLite::Statement check(database, "PRAGMA integrity_check(1)");
  check.executeStep();
  const std::string found = check.getColumn(0).getString();
  if (found != "ok") throw_damaged(file, found);
  if (!has_schema(database)) throw_damaged(file, "its tables are not those of a profile");
}

// A connection that changes nothing. Where the folder cannot be written, SQLite cannot make its
// index of the log; without a log the file can be read as it is.
std::unique_ptr<SQLite::Database> open_to_read(const fs::path& file) {
  check_file(file);
  check_file_system(file);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  fs::path log = file;
  log += "-wal";
  std::error_code unknown;
  const bool as_it_is = ::euidaccess(folder.c_str(), W_OK) != 0 && !fs::exists(log, unknown);
  std::string name = fs::absolute(file).string();
  if (as_it_is) {
    std::string escaped;
    for (const char c : name) {
      const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '/' || c == '-' ||
                         c == '_' || c == '.';
      escaped += plain ? std::string(1, c) : fmt::format("%{:02x}", static_cast<unsigned char>(c));
    }
    name = "file:" + escaped + "?immutable=1";
  }
  auto database = std::make_unique<SQLite::Database>(
      name, SQLite::OPEN_READONLY | (as_it_is ? SQLite::OPEN_URI : 0), kBusyMilliseconds);
  harden(*database);
  check_contents(*database, file);
  return database;
}

// 0: it may be written. Root may write any file; the mode says what its owner wants.
int write_error(const fs::path& file) {
  constexpr auto kAnyWrite =
      fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
  if (::euidaccess(file.c_str(), W_OK) != 0) return errno;
  return (fs::status(file).permissions() & kAnyWrite) == fs::perms::none ? EACCES : 0;
}

// The file appears whole: it is made under another name first.
void make_file(const fs::path& file) {
  const fs::path part = file.parent_path() / random_file_name();
  try {
    SQLite::Database database(part, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    for (const std::string& statement : schema_statements()) database.exec(statement);
    database.exec("PRAGMA journal_mode = WAL");
  } catch (...) {
    std::error_code ignored;
    fs::remove(part, ignored);
    throw;
  }
  // A link fails, like a rename that replaces nothing, if another process was first; it works where
  // such a rename does not.
  const bool linked = ::link(part.c_str(), file.c_str()) == 0;
  const int error = errno;
  fs::remove(part);
  if (!linked && error != EEXIST) {
    throw std::system_error(error, std::generic_category(), printable(file.string()));
  }
}

void bind(SQLite::Statement& statement, int place, const Cell& cell) {
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return statement.bind(place, *whole);
  if (const auto* number = std::get_if<double>(&cell)) return statement.bind(place, *number);
  if (const auto* text = std::get_if<std::string>(&cell)) return statement.bind(place, *text);
  statement.bind(place);
}

Cell cell_of(const SQLite::Column& column) {
  if (column.isNull()) return {};
  if (column.isInteger()) return column.getInt64();
  if (column.isFloat()) return column.getDouble();
  return column.getString();
}

std::vector<Cell> cells_of(const Provenance& provenance) {
  return {provenance.machine, provenance.software, provenance.source};
}

std::int64_t stored(std::uint64_t checksum) { return std::bit_cast<std::int64_t>(checksum); }

std::int64_t add_provenance(SQLite::Database& database, const Provenance& provenance) {
  const std::vector<Cell> cells = cells_of(provenance);
  SQLite::Statement insert(database,
                           "INSERT INTO provenances (machine, software, source, checksum) VALUES "
                           "(?, ?, ?, ?) ON CONFLICT DO NOTHING");
  SQLite::Statement find(
      database, "SELECT id FROM provenances WHERE machine = ? AND software = ? AND source = ?");
  for (int i = 0; i < 3; ++i) {
    bind(insert, i + 1, cells[static_cast<std::size_t>(i)]);
    bind(find, i + 1, cells[static_cast<std::size_t>(i)]);
  }
  insert.bind(4, stored(checksum_of(cells)));
  insert.exec();
  find.executeStep();
  return find.getColumn(0).getInt64();
}

template <class Row>
void insert_rows(SQLite::Database& database, const std::vector<Row>& rows,
                 const std::vector<std::int64_t>& provenances) {
  if (rows.empty()) return;
  SQLite::Statement insert(database, insert_statement(description_of<Row>()));
  for (const Row& row : rows) {
    std::vector<Cell> cells = cells_of(row);
    cells[0] = provenances[row.evidence.provenance];
    int place = 0;
    for (const Cell& cell : cells) bind(insert, ++place, cell);
    insert.bind(++place, stored(checksum_of(cells)));
    insert.exec();
    insert.reset();
  }
}

std::map<std::int64_t, std::size_t> read_provenances(SQLite::Database& database,
                                                     const fs::path& file, Profile& profile) {
  std::map<std::int64_t, std::size_t> places;
  SQLite::Statement query(database,
                          "SELECT id, machine, software, source, checksum FROM provenances");
  while (query.executeStep()) {
    const Provenance provenance{query.getColumn(1).getString(), query.getColumn(2).getString(),
                                query.getColumn(3).getString()};
    if (query.getColumn(4).getInt64() != stored(checksum_of(cells_of(provenance)))) {
      throw_damaged(file, fmt::format("row {} of provenances has changed", places.size() + 1));
    }
    places[query.getColumn(0).getInt64()] = profile.provenances.size();
    profile.provenances.push_back(provenance);
  }
  return places;
}

template <class Row>
void read_rows(SQLite::Database& database, const fs::path& file,
               const std::map<std::int64_t, std::size_t>& provenances, std::vector<Row>& rows) {
  const TableDescription& table = description_of<Row>();
  const int columns = static_cast<int>(table.columns.size());
  SQLite::Statement query(database, select_statement(table));
  while (query.executeStep()) {
    const auto problem = [&](std::string_view what) {
      throw_damaged(file, fmt::format("row {} of {}: {}", rows.size() + 1, table.name, what));
    };
    std::vector<Cell> cells;
    for (int i = 0; i < columns; ++i) cells.push_back(cell_of(query.getColumn(i)));
    if (query.getColumn(columns).getInt64() != stored(checksum_of(cells))) problem("has changed");
    const auto* id = std::get_if<std::int64_t>(&cells[0]);
    const auto place = id ? provenances.find(*id) : provenances.end();
    if (place == provenances.end()) problem("its provenance is not there");
    cells[0] = static_cast<std::int64_t>(place->second);
    try {
      rows.push_back(row_of<Row>(cells));
    } catch (const InputError& error) {
      problem(error.what());
    }
  }
}

Profile read_all(SQLite::Database& database, const fs::path& file) {
  // One transaction, so that all tables are of the same moment.
  SQLite::Transaction moment(database);
  Profile profile;
  const auto provenances = read_provenances(database, file, profile);
  for_each_table(profile, [&](auto& rows) { read_rows(database, file, provenances, rows); });
  return sorted(profile);
}

}  // namespace

// Numbers from the kernel's magic.h and the file systems' own headers.
bool is_network_file_system(std::int64_t type) {
  switch (type & 0xffffffff) {
    case 0x6969:      // NFS
    case 0x517b:      // SMB
    case 0xff534d42:  // CIFS
    case 0xfe534d42:  // SMB2
    case 0x0bd00bd0:  // Lustre
    case 0x47504653:  // GPFS
    case 0x19830326:  // BeeGFS
    case 0x00c36400:  // Ceph
    case 0x5346414f:  // AFS
    case 0xaad7aaea:  // Panasas
      return true;
    default:
      return false;
  }
}

Profile ProfileDb::read(const fs::path& file) {
  return guarded(file, [&] {
    const auto database = open_to_read(file);
    return read_all(*database, file);
  });
}

ProfileDb::ProfileDb(const fs::path& file) : file_(file) {
  guarded(file_, [&] {
    check_file_system(file_);
    std::error_code unknown;
    if (!fs::exists(file_, unknown)) make_file(file_);
    // First without any right to change it: closing a connection that may write would already put
    // another program's log into its file.
    open_to_read(file_).reset();
    if (const int error = write_error(file_)) {
      throw_unavailable(file_, fmt::format("cannot be written: {}", std::strerror(error)));
    }
    database_ =
        std::make_unique<SQLite::Database>(file_, SQLite::OPEN_READWRITE, kBusyMilliseconds);
    harden(*database_);
    database_->exec("PRAGMA synchronous = FULL");
    database_->exec("PRAGMA foreign_keys = ON");
  });
}

ProfileDb::~ProfileDb() = default;

void ProfileDb::add(const Profile& rows) {
  guarded(file_, [&] {
    SQLite::Transaction transaction(*database_, SQLite::TransactionBehavior::IMMEDIATE);
    std::vector<std::int64_t> ids;
    for (const Provenance& provenance : rows.provenances) {
      ids.push_back(add_provenance(*database_, provenance));
    }
    for_each_table(rows, [&](const auto& table) { insert_rows(*database_, table, ids); });
    transaction.commit();
  });
}

Profile ProfileDb::read() const {
  return guarded(file_, [&] { return read_all(*database_, file_); });
}

}  // namespace meshwright
