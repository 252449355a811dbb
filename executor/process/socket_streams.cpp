#include "executor/process/socket_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "executor/transport.h"

namespace meshwright {
namespace {

class SocketStreams : public Streams {
 public:
  explicit SocketStreams(std::map<std::size_t, PeerConnection> peers)
      : wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    for (auto& [process, connection] : peers) {
      const int number = connection.socket.number();
      ::fcntl(number, F_SETFL, ::fcntl(number, F_GETFL) | O_NONBLOCK);
      peers_.try_emplace(process, std::move(connection));
    }
  }

  std::size_t write(std::size_t to, std::span<const std::byte> bytes) override {
    Peer& peer = peers_.at(to);
    std::size_t done = 0;
    while (done < bytes.size()) {
      const auto sent =
          ::send(peer.number(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) break;
      if (sent < 0) peer.throw_lost(std::strerror(errno));
      done += static_cast<std::size_t>(sent);
    }
    peer.wants_room = done < bytes.size();
    return done;
  }

  std::size_t read(std::size_t from, std::span<std::byte> bytes) override {
    const Peer& peer = peers_.at(from);
    for (;;) {
      const auto got = ::recv(peer.number(), bytes.data(), bytes.size(), 0);
      if (got > 0) return static_cast<std::size_t>(got);
      if (got == 0) peer.throw_lost("it was closed at the other end");
      if (errno == EAGAIN) return 0;
      if (errno != EINTR) peer.throw_lost(std::strerror(errno));
    }
  }

  std::uint32_t moment(Waiter) override { return 0; }

  void wait(Waiter, std::uint32_t) override {
    std::vector<struct pollfd> all = {{wake_.number(), POLLIN, 0}};
    for (const auto& [process, peer] : peers_) {
      const short events = peer.wants_room ? POLLIN | POLLOUT : POLLIN;
      all.push_back({peer.number(), events, 0});
    }
    ::poll(all.data(), all.size(), 100);
    eventfd_t woken = 0;
    ::eventfd_read(wake_.number(), &woken);
  }

  void stop_waiting() override {}
  void wake() override { ::eventfd_write(wake_.number(), 1); }

 private:
  struct Peer {
    explicit Peer(PeerConnection made) : connection(std::move(made)) {}
    int number() const { return connection.socket.number(); }
    [[noreturn]] void throw_lost(const std::string& why) const {
      throw PeerFailure(fmt::format("the connection to {} is lost: {}", connection.name, why));
    }
    PeerConnection connection;
    std::atomic<bool> wants_room = false;
  };

  FileDescriptor wake_;
  std::map<std::size_t, Peer> peers_;
};

}  // namespace

std::unique_ptr<Streams> socket_streams(std::map<std::size_t, PeerConnection> peers) {
  return std::make_unique<SocketStreams>(std::move(peers));
}

}  // namespace meshwright
