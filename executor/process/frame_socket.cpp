#include "executor/process/frame_socket.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace meshwright {
namespace {

// A text is at most the timeline of a device's step. More is no message of ours.
constexpr std::uint32_t kMostBytes = 1u << 30;

}  // namespace

FrameSocket::FrameSocket(FileDescriptor socket) : socket_(std::move(socket)) {
  ::fcntl(number(), F_SETFL, ::fcntl(number(), F_GETFL) | O_NONBLOCK);
}

void FrameSocket::send(std::string_view text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  std::array<char, sizeof size> head;
  std::memcpy(head.data(), &size, sizeof size);
  out_.append(head.data(), head.size());
  out_.append(text);
  flush();
}

void FrameSocket::flush() {
  std::size_t done = 0;
  while (done < out_.size() && !closed_) {
    const auto sent =
        ::send(number(), out_.data() + done, out_.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      done += static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      done = out_.size();  // nobody will read it; reading finds out that the other end is gone
    }
  }
  out_.erase(0, done);
}

std::vector<std::string> FrameSocket::read() {
  std::vector<std::string> frames;
  std::array<char, 65536> piece;
  while (!closed_) {
    const auto got = ::recv(number(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (got > 0) {
      in_.append(piece.data(), static_cast<std::size_t>(got));
    } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      break;
    } else if (got == 0 || errno != EINTR) {
      closed_ = true;
    }
  }
  while (take_frame(frames)) {
  }
  return frames;
}

bool FrameSocket::take_frame(std::vector<std::string>& frames) {
  std::uint32_t size = 0;
  if (in_.size() < sizeof size) return false;
  std::memcpy(&size, in_.data(), sizeof size);
  if (size > kMostBytes) {
    in_.clear();
    closed_ = true;
    return false;
  }
  if (in_.size() - sizeof size < size) return false;
  frames.push_back(in_.substr(sizeof size, size));
  in_.erase(0, sizeof size + size);
  return true;
}

bool FrameSocket::is_cut() const {
  constexpr std::uint32_t kUsualMilliseconds = 2000;  // within which a machine answers
  struct tcp_info info {};
  socklen_t size = sizeof info;
  int kept = 0;  // bytes that the other machine has not said it got
  return ::getsockopt(number(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
         ::ioctl(number(), SIOCOUTQ, &kept) == 0 && kept > 0 &&
         info.tcpi_last_ack_recv > kUsualMilliseconds;
}

}  // namespace meshwright
