#include "costmodel/base/write_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "costmodel/base/input_error.h"

namespace meshwright {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& file, int error, std::string_view problem) {
  throw std::system_error(error, std::generic_category(),
                          fmt::format("{}: {}", printable(file.string()), problem));
}

[[noreturn]] void fail_write(const fs::path& file, int error) {
  fail(file, error, "cannot be written");
}

// Nothing: no such file yet, or a link to one.
std::optional<struct stat> status_of(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) == 0) return status;
  if (errno != ENOENT) fail_write(file, errno);
  return std::nullopt;
}

// Root may write any file; the mode says what its owner wants.
void refuse_read_only(const fs::path& file, const struct stat& status) {
  constexpr mode_t kAnyWrite = S_IWUSR | S_IWGRP | S_IWOTH;
  if (S_ISDIR(status.st_mode)) fail_write(file, EISDIR);
  if ((status.st_mode & kAnyWrite) == 0 ||
      ::faccessat(AT_FDCWD, file.c_str(), W_OK, AT_EACCESS) != 0) {
    fail(file, EACCES, "is read-only");
  }
}

// The file at the end of a chain of links, which need not be there. The system has followed the
// chain before, so that it has refused what may not be followed.
fs::path end_of_links(fs::path file) {
  constexpr int kMostLinks = 40;  // as many as the system follows
  for (int i = 0; i < kMostLinks && fs::is_symlink(fs::symlink_status(file)); ++i) {
    file = file.parent_path() / fs::read_symlink(file);
  }
  return file;
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

void write_all(const FileDescriptor& to, std::string_view text, const fs::path& file) {
  while (!text.empty()) {
    const ssize_t written = ::write(to.number(), text.data(), text.size());
    if (written < 0 && errno != EINTR) fail_write(file, errno);
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Devices and pipes have nothing to bring to a disk.
void sync(const FileDescriptor& to, const fs::path& file) {
  if (::fsync(to.number()) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP) {
    fail_write(file, errno);
  }
}

// A regular file that the shell has opened for us already (`--trace /dev/stdout >file`): replaced,
// it would lose what is printed beside.
std::optional<FileDescriptor> already_open(const struct stat& status) {
  for (const int number : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat open {};
    if (::fstat(number, &open) != 0) continue;
    if (open.st_dev == status.st_dev && open.st_ino == status.st_ino) {
      return FileDescriptor(::fcntl(number, F_DUPFD_CLOEXEC, 0));
    }
  }
  return std::nullopt;
}

// A new file beside the one it is to replace; removed again unless it did.
class Replacement {
 public:
  explicit Replacement(fs::path file) : file_(std::move(file)), folder_(open_folder(file_)) {
    if (!folder_.is_open()) fail_write(file_, errno);
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  ~Replacement() {
    if (!name_.empty()) ::unlinkat(folder_.number(), name_.c_str(), 0);
  }

  // `old`: the file that it replaces, whose mode and, where the system allows it, owner it takes.
  void write(std::string_view text, const std::optional<struct stat>& old) {
    constexpr mode_t kBits = 07777;
    const FileDescriptor partial = create(old ? S_IRUSR | S_IWUSR : 0666);
    if (old && (old->st_uid != ::geteuid() || old->st_gid != ::getegid())) {
      [[maybe_unused]] const int kept = ::fchown(partial.number(), old->st_uid, old->st_gid);
    }
    if (old && ::fchmod(partial.number(), old->st_mode & kBits) != 0) fail_write(file_, errno);
    write_all(partial, text, file_);
    sync(partial, file_);
    const std::string last = file_.filename().string();
    if (::renameat(folder_.number(), name_.c_str(), folder_.number(), last.c_str()) != 0) {
      fail(file_, errno, "cannot be replaced");
    }
    name_.clear();
    sync(folder_, file_);
  }

 private:
  static FileDescriptor open_folder(const fs::path& file) {
    return FileDescriptor(::open(folder_of(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }

  FileDescriptor create(mode_t mode) {
    constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const std::string name = random_file_name();
    FileDescriptor partial(::openat(folder_.number(), name.c_str(), kNew, mode));
    if (!partial.is_open()) fail_write(file_, errno);
    name_ = name;
    return partial;
  }

  fs::path file_;
  FileDescriptor folder_;
  std::string name_;  // empty: nothing to remove
};

FileDescriptor open_existing(const fs::path& file, int flags) {
  FileDescriptor opened(::open(file.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | flags, 0666));
  if (!opened.is_open()) fail_write(file, errno);
  return opened;
}

FileDescriptor open_lines(const fs::path& file) {
  const auto status = status_of(file);
  if (status) refuse_read_only(file, *status);
  return open_existing(file, O_CREAT | O_TRUNC | O_APPEND);
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (is_open()) ::close(number_);
}

std::string random_file_name() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) {
    throw std::system_error(errno, std::generic_category(), "random numbers");
  }
  return fmt::format(".meshwright-{:016x}", number);
}

void write_text_file(const fs::path& file, std::string_view text) {
  const auto status = status_of(file);
  if (status) refuse_read_only(file, *status);
  if (!status || S_ISREG(status->st_mode)) {
    const auto open = status ? already_open(*status) : std::nullopt;
    return open ? write_all(*open, text, file)
                : Replacement(end_of_links(file)).write(text, status);
  }
  const FileDescriptor through = open_existing(file, 0);
  write_all(through, text, file);
  sync(through, file);
}

void check_writable(const fs::path& file) {
  const auto status = status_of(file);
  if (status) refuse_read_only(file, *status);
  if (status && !S_ISREG(status->st_mode)) return;
  const fs::path folder = folder_of(end_of_links(file));
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) fail_write(file, errno);
}

LineFile::LineFile(const fs::path& file) : file_(file), descriptor_(open_lines(file)) {}

void LineFile::add(std::string_view line) {
  write_all(descriptor_, std::string(line) + "\n", file_);
}

}  // namespace meshwright
