#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "costmodel/profile/profile.h"

namespace SQLite {
class Database;
}

namespace meshwright {

// A profile in one SQLite file (write-ahead log, full synchronization). Any number of processes of
// one host may read and write it at the same time. What cannot be used is never changed:
//   InputError: not a regular file, not SQLite, another program's, a newer version
//   DatabaseError::Damaged: damaged
//   DatabaseError::Unavailable: locked for 30 s, read-only, on a network file system
//   std::system_error: the disk is full or fails
class ProfileDb {
 public:
  // Of the schema. A file with a larger number is refused.
  static constexpr int kVersion = 1;

  // The whole profile, sorted.
  static Profile read(const std::filesystem::path& file);

  // For writing; a file that does not exist is made.
  explicit ProfileDb(const std::filesystem::path& file);
  ~ProfileDb();
  ProfileDb(const ProfileDb&) = delete;
  ProfileDb& operator=(const ProfileDb&) = delete;

  // All rows or none, on disk when this returns. A row replaces one of no later date for the same
  // thing by the same provenance.
  void add(const Profile& rows);
  Profile read() const;

 private:
  std::filesystem::path file_;
  std::unique_ptr<SQLite::Database> database_;
};

// Whether a file system of this type (statfs) is one that several hosts share, where the
// write-ahead log is not safe.
bool is_network_file_system(std::int64_t type);

}  // namespace meshwright
