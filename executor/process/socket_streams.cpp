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
      : wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        wake_background_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
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

  std::uint32_t moment(Waiter who) override {
    if (who == Waiter::Caller) caller_waits_ = true;
    return 0;
  }

  // One of them is enough to be woken by what comes: the caller, while it waits.
  void wait(Waiter who, std::uint32_t) override {
    const bool caller = who == Waiter::Caller;
    const FileDescriptor& own = caller ? wake_ : wake_background_;
    std::vector<struct pollfd> all = {{own.number(), POLLIN, 0}};
    if (!caller) background_waits_ = true;
    if (caller || !caller_waits_) add_peers(all);
    ::poll(all.data(), all.size(), 100);
    if (!caller) background_waits_ = false;
    eventfd_t woken = 0;
    ::eventfd_read(own.number(), &woken);
  }

  void stop_waiting() override {
    caller_waits_ = false;
    if (background_waits_) ::eventfd_write(wake_background_.number(), 1);
  }
  void wake(Waiter who) override {
    ::eventfd_write((who == Waiter::Caller ? wake_ : wake_background_).number(), 1);
  }

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

  void add_peers(std::vector<struct pollfd>& all) const {
    for (const auto& [process, peer] : peers_) {
      const short events = peer.wants_room ? POLLIN | POLLOUT : POLLIN;
      all.push_back({peer.number(), events, 0});
    }
  }

  FileDescriptor wake_, wake_background_;
  std::atomic<bool> caller_waits_ = false, background_waits_ = false;
  std::map<std::size_t, Peer> peers_;
};

}  // namespace

std::unique_ptr<Streams> socket_streams(std::map<std::size_t, PeerConnection> peers) {
  return std::make_unique<SocketStreams>(std::move(peers));
}

}  // namespace meshwright
