#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace meshwright {

// An open file of the system, closed when it goes away.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  ~FileDescriptor();
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

// Writes what a person asked for to the place he named, the way a shell's redirection finds it:
// through links, devices and pipes. A regular file is replaced whole or not at all, keeps its mode,
// and is on the disk before it takes the old one's place; one that nobody may write is refused, to
// root as well. Throws std::system_error that names the file.
void write_text_file(const std::filesystem::path& file, std::string_view text);

// Of a file that is made under another name first: short, so that it fits wherever the file's own
// name does, and nobody can guess it and stand a link of that name in the way.
std::string random_file_name();

// Throws what writing there would throw, as far as that is known without touching anything: for
// what is written only after hours of work.
void check_writable(const std::filesystem::path& file);

// A file that grows while a program runs, such as a log: found and refused like the above, emptied
// when it is opened, and every line is handed to the system at once.
class LineFile {
 public:
  explicit LineFile(const std::filesystem::path& file);
  void add(std::string_view line);

 private:
  std::filesystem::path file_;
  FileDescriptor descriptor_;
};

}  // namespace meshwright
