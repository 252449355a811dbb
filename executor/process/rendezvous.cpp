#include "executor/process/rendezvous.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(5);
constexpr std::size_t kMostPending = 64;
constexpr std::size_t kReplyBytes = sizeof(std::uint32_t) + 2 * sizeof(Digest);

[[noreturn]] void throw_socket(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::string_view text_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

Digest digest_in(std::string_view text) {
  Digest digest;
  std::memcpy(digest.data(), text.data(), digest.size());
  return digest;
}

// Both sides prove that they know the token: of two random numbers, one of each, and who joins.
Digest proof(const RunToken& token, std::string_view side, const Digest& challenge,
             const Digest& answer, std::uint32_t process) {
  std::string message(side);
  message += text_of(challenge);
  message += text_of(answer);
  message += std::to_string(process);
  return hmac_sha256(token, std::as_bytes(std::span(message)));
}

constexpr std::string_view kJoins = "meshwright 1 joins", kListens = "meshwright 1 listens";

// IPv4 addresses of this machine that others may reach.
std::vector<std::string> own_addresses() {
  struct ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) throw_socket("the addresses of this machine cannot be read");
  std::vector<std::string> found;
  for (const struct ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET ||
        (entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_LOOPBACK) != 0) {
      continue;
    }
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* const address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    ::inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
    found.emplace_back(text.data());
  }
  ::freeifaddrs(all);
  return found;
}

bool wait_for(int socket, short events, Clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  struct pollfd wanted {
    socket, events, 0
  };
  return left > 0 && ::poll(&wanted, 1, static_cast<int>(left)) > 0;
}

// Exactly so many bytes. None: they did not come in time.
std::optional<std::string> read_exactly(int socket, std::size_t bytes, Clock::time_point until) {
  std::string text;
  while (text.size() < bytes) {
    std::array<char, 256> piece;
    if (!wait_for(socket, POLLIN, until)) return std::nullopt;
    const auto got = ::recv(socket, piece.data(), std::min(piece.size(), bytes - text.size()), 0);
    if (got <= 0) return std::nullopt;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  return text;
}

void send_short(int socket, std::string_view text) {
  // Shorter than what the system keeps for a new connection.
  [[maybe_unused]] const auto sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
}

// A link that is cut shows after a while also where nothing is said.
void set_up(int socket) {
  const int on = 1, limit = 20'000;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit);
}

std::optional<FileDescriptor> connect_to(const std::string& address, std::uint16_t port,
                                         Clock::time_point until) {
  struct sockaddr_in place {};
  place.sin_family = AF_INET;
  place.sin_port = ::htons(port);
  if (::inet_pton(AF_INET, address.c_str(), &place.sin_addr) != 1) return std::nullopt;
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) throw_socket("a connection cannot be made");
  const auto* const name = reinterpret_cast<const sockaddr*>(&place);
  if (::connect(socket.number(), name, sizeof place) != 0) {
    if (errno != EINPROGRESS || !wait_for(socket.number(), POLLOUT, until)) return std::nullopt;
  }
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return std::nullopt;
  set_up(socket.number());
  return socket;
}

// Whether both know the token.
bool prove(int socket, const RunToken& token, std::uint32_t process, Clock::time_point until) {
  const auto challenge = read_exactly(socket, sizeof(Digest), until);
  if (!challenge) return false;
  const Digest asked = digest_in(*challenge), own = random_token();
  std::string reply(reinterpret_cast<const char*>(&process), sizeof process);
  reply += text_of(own);
  reply += text_of(proof(token, kJoins, asked, own, process));
  send_short(socket, reply);
  const auto answer = read_exactly(socket, sizeof(Digest), until);
  return answer && is_equal(digest_in(*answer), proof(token, kListens, asked, own, process));
}

}  // namespace

RunToken random_token() {
  RunToken token;
  if (::getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    throw_socket("the system gives no random numbers");
  }
  return token;
}

std::string to_text(const MeetingPoint& point) {
  std::string token;
  for (const std::byte b : point.token) token += fmt::format("{:02x}", std::to_integer<int>(b));
  return nlohmann::json({{"addresses", point.addresses}, {"port", point.port}, {"token", token}})
      .dump();
}

std::optional<MeetingPoint> meeting_point_from(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    MeetingPoint point{json.at("addresses"), json.at("port")};
    const auto token = json.at("token").get<std::string>();
    if (token.size() != 2 * point.token.size()) return std::nullopt;
    for (std::size_t i = 0; i < point.token.size(); ++i) {
      point.token[i] = static_cast<std::byte>(std::stoi(token.substr(2 * i, 2), nullptr, 16));
    }
    return point;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  } catch (const std::logic_error&) {
    return std::nullopt;
  }
}

Listener::Listener(bool loopback, const RunToken& token)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  struct sockaddr_in place {};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = ::htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
  auto* const name = reinterpret_cast<sockaddr*>(&place);
  socklen_t size = sizeof place;
  if (!socket_.is_open() || ::bind(socket_.number(), name, size) != 0 ||
      ::listen(socket_.number(), SOMAXCONN) != 0 ||
      ::getsockname(socket_.number(), name, &size) != 0) {
    throw_socket("nobody can be listened to");
  }
  point_ = {loopback ? std::vector<std::string>{"127.0.0.1"} : own_addresses(),
            ::ntohs(place.sin_port), token};
}

std::optional<Listener::Joined> Listener::accept(Clock::time_point until) {
  while (Clock::now() < until) {
    std::vector<struct pollfd> all = {{socket_.number(), POLLIN, 0}};
    for (const Pending& pending : pending_) all.push_back({pending.connection.number(), POLLIN, 0});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    ::poll(all.data(), all.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 200)));
    take_new();
    for (Pending& pending : pending_) read(pending);
    std::erase_if(pending_, [](const Pending& pending) { return pending.refused; });
    const auto joined = std::ranges::find(pending_, true, &Pending::proven);
    if (joined == pending_.end()) continue;
    Joined result{joined->process, std::move(joined->connection)};
    pending_.erase(joined);
    return result;
  }
  return std::nullopt;
}

void Listener::take_new() {
  while (pending_.size() < kMostPending) {
    FileDescriptor connection(
        ::accept4(socket_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.is_open()) return;
    set_up(connection.number());
    const Digest challenge = random_token();
    send_short(connection.number(), text_of(challenge));
    pending_.push_back({std::move(connection), challenge, "", Clock::now() + kPatience});
  }
}

void Listener::read(Pending& pending) const {
  if (pending.proven) return;  // it waits to be taken; what it says now is for others
  std::array<char, kReplyBytes> piece;
  const auto got = ::recv(pending.connection.number(), piece.data(),
                          kReplyBytes - pending.received.size(), MSG_DONTWAIT);
  const bool nothing_yet = got < 0 && (errno == EAGAIN || errno == EINTR);
  pending.refused = (got <= 0 && !nothing_yet) || Clock::now() > pending.until;
  if (got > 0) pending.received.append(piece.data(), static_cast<std::size_t>(got));
  if (pending.refused || pending.received.size() < kReplyBytes) return;
  const std::string_view reply = pending.received;
  std::memcpy(&pending.process, reply.data(), sizeof pending.process);
  const Digest answer = digest_in(reply.substr(sizeof pending.process));
  const Digest shown = digest_in(reply.substr(sizeof pending.process + sizeof(Digest)));
  pending.proven =
      is_equal(shown, proof(point_.token, kJoins, pending.challenge, answer, pending.process));
  pending.refused = !pending.proven;
  if (!pending.proven) return;
  send_short(pending.connection.number(),
             text_of(proof(point_.token, kListens, pending.challenge, answer, pending.process)));
}

std::optional<FileDescriptor> join(const MeetingPoint& point, std::uint32_t process) {
  for (const std::string& address : point.addresses) {
    const auto until = Clock::now() + kPatience;
    auto socket = connect_to(address, point.port, until);
    if (socket && prove(socket->number(), point.token, process, until)) return socket;
  }
  return std::nullopt;
}

}  // namespace meshwright
