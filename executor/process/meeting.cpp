#include "executor/process/meeting.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <thread>

#include "costmodel/base/write_file.h"
#include "executor/environment_error.h"
#include "executor/process/run_failure.h"

namespace meshwright {
namespace {

namespace fs = std::filesystem;

// Something else of that name, such as a device, would be gone.
void check_replaceable(const fs::path& file) {
  struct stat status {};
  if (::lstat(file.c_str(), &status) != 0 || S_ISREG(status.st_mode) || S_ISLNK(status.st_mode)) {
    return;
  }
  throw EnvironmentError(fmt::format("{}, where processes are to meet, is no file", file.string()));
}

// Under another name first, so that nobody reads half of it.
void write_private_file(const fs::path& file, const std::string& text) {
  check_replaceable(file);
  const fs::path made = file.parent_path() / random_file_name();
  const FileDescriptor descriptor(
      ::open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!descriptor.is_open() ||
      ::write(descriptor.number(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::rename(made.c_str(), file.c_str()) != 0) {
    const int error = errno;
    ::unlink(made.c_str());
    throw std::system_error(error, std::generic_category(),
                            fmt::format("{}, where processes are to meet", file.string()));
  }
}

// Of this user, for nobody else. None: there is none yet.
std::optional<std::string> read_private_file(const fs::path& file) {
  const FileDescriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status {};
  if (!descriptor.is_open() || ::fstat(descriptor.number(), &status) != 0 ||
      !S_ISREG(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    return std::nullopt;
  }
  std::array<char, 16384> text;
  const auto size = ::read(descriptor.number(), text.data(), text.size());
  return size < 0 ? std::nullopt
                  : std::optional(std::string(text.data(), static_cast<std::size_t>(size)));
}

}  // namespace

MeetingNotice::MeetingNotice(LaunchedPlace place, std::optional<Broadcast> broadcast)
    : place_(std::move(place)), broadcast_(std::move(broadcast)) {
  if (broadcast_ || place_.meeting_file) return;
  throw EnvironmentError(
      "the launcher does not say how its processes meet: set MESHWRIGHT_MEETING to a file that all "
      "of them can reach, another one for each run");
}

void MeetingNotice::publish(const MeetingPoint& point) const {
  if (broadcast_) {
    (*broadcast_)(to_text(point));
  } else {
    write_private_file(*place_.meeting_file, to_text(point));
  }
}

void MeetingNotice::withdraw() const {
  if (!broadcast_) ::unlink(place_.meeting_file->c_str());
}

// A file may be of an earlier run: then nobody answers there, and it is read again.
FileDescriptor MeetingNotice::join_first(std::chrono::steady_clock::time_point until,
                                         RunToken& token) const {
  const auto sent = broadcast_ ? std::optional((*broadcast_)("")) : std::nullopt;
  bool found = false;
  do {
    const auto text = sent ? sent : read_private_file(*place_.meeting_file);
    const auto point = text ? meeting_point_from(*text) : std::nullopt;
    found |= point.has_value();
    if (point) {
      if (auto socket = join(*point, static_cast<std::uint32_t>(place_.process))) {
        token = point->token;
        return std::move(*socket);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  } while (std::chrono::steady_clock::now() < until);
  throw RunFailure(
      RunFailure::Kind::Network,
      fmt::format("process {} of {} does not reach process 0: {}", place_.process, place_.count,
                  found  ? "nobody who knows the run's token answers"
                  : sent ? "it did not say where it is"
                         : fmt::format("there is no file {} of this user; it must "
                                       "be in a folder that all machines share",
                                       place_.meeting_file->string())));
}

}  // namespace meshwright
