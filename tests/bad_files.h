#pragma once

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>

namespace meshwright {

// A folder of its own that is gone afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "meshwright-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
    std::filesystem::permissions(path_, std::filesystem::perms::all);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(std::string_view name, std::string_view text) const {
    const auto file = path_ / name;
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }

 private:
  std::filesystem::path path_;
};

// A good text with something in it changed.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// Every reader of files refuses, with the file's name: no such file, a directory, a file without
// permission, an empty file.
inline void check_unreadable_files(const std::function<void(const std::filesystem::path&)>& read) {
  const TemporaryFolder folder;
  const auto missing = folder.path() / "missing.json";
  CHECK_THROWS_WITH(read(missing),
                    missing.string() + ": cannot be read: No such file or directory");
  const auto directory = folder.path() / "folder.json";
  std::filesystem::create_directory(directory);
  CHECK_THROWS_WITH(read(directory), directory.string() + ": is a directory, expected a file");
  const auto empty = folder.write("empty.json", "");
  CHECK_THROWS_WITH(read(empty), Catch::StartsWith(empty.string() + ": "));

  const auto secret = folder.write("secret.json", "{}");
  std::filesystem::permissions(secret, std::filesystem::perms::none);
  // Root reads everything, so become somebody else for this one.
  const bool root = ::geteuid() == 0;
  if (root) REQUIRE(::seteuid(65534) == 0);
  CHECK_THROWS_WITH(read(secret), secret.string() + ": cannot be read: Permission denied");
  if (root) REQUIRE(::seteuid(0) == 0);
}

}  // namespace meshwright
