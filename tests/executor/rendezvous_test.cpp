#include "executor/process/rendezvous.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <map>
#include <span>
#include <string_view>
#include <thread>

#include "executor/process/launched_place.h"

namespace meshwright {
namespace {

using namespace std::chrono_literals;

std::span<const std::byte> bytes_in(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::byte b : digest) text += fmt::format("{:02x}", std::to_integer<int>(b));
  return text;
}

auto soon() { return std::chrono::steady_clock::now() + 20s; }

FileDescriptor plain_connection(std::uint16_t port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  struct sockaddr_in place {};
  place.sin_family = AF_INET;
  place.sin_port = ::htons(port);
  place.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(socket.number(), reinterpret_cast<sockaddr*>(&place), sizeof place) == 0);
  return socket;
}

std::optional<LaunchedPlace> place_in(const std::map<std::string, std::string>& variables) {
  return launched_place([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

}  // namespace

TEST_CASE("SHA-256 and HMAC give the values of their standards") {
  // FIPS 180-4, examples of NIST; RFC 4231, cases 2 and 6.
  CHECK(hex(sha256(bytes_in(""))) ==
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex(sha256(bytes_in("abc"))) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hex(sha256(bytes_in("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hex(hmac_sha256(bytes_in("Jefe"), bytes_in("what do ya want for nothing?"))) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hex(hmac_sha256(bytes_in(std::string(131, '\xaa')),
                        bytes_in("Test Using Larger Than Block-Size Key - Hash Key First"))) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("who knows the token joins, and both know it of each other", "[threads]") {
  Listener listener(true, random_token());
  const auto point = meeting_point_from(to_text(listener.point()));
  REQUIRE(point);
  CHECK(point->addresses == std::vector<std::string>{"127.0.0.1"});
  auto joined = std::async(std::launch::async, [&] { return join(*point, 7); });
  const auto accepted = listener.accept(soon());
  REQUIRE(accepted);
  CHECK(accepted->process == 7);
  CHECK(joined.get().has_value());
}

TEST_CASE("who does not know the token is refused, and does not hold up the others", "[threads]") {
  Listener listener(true, random_token());
  const FileDescriptor silent = plain_connection(listener.point().port);
  const FileDescriptor noisy = plain_connection(listener.point().port);
  const std::string noise(1000, 'x');
  ::send(noisy.number(), noise.data(), noise.size(), MSG_NOSIGNAL);
  MeetingPoint wrong = listener.point();
  wrong.token[31] ^= std::byte{1};
  auto refused = std::async(std::launch::async, [&] { return join(wrong, 1); });
  auto joined = std::async(std::launch::async, [&] {
    refused.wait();
    return join(listener.point(), 2);
  });
  const auto accepted = listener.accept(soon());
  REQUIRE(accepted);
  CHECK(accepted->process == 2);
  CHECK(joined.get().has_value());
  CHECK_FALSE(refused.get().has_value());
}

TEST_CASE("those who join at the same time all do, and nothing they say next is lost",
          "[threads]") {
  Listener listener(true, random_token());
  std::vector<std::future<bool>> joining;
  for (std::uint32_t process = 0; process < 8; ++process) {
    joining.push_back(std::async(std::launch::async, [&, process] {
      const auto socket = join(listener.point(), process);
      const std::string word = "process " + std::to_string(process);
      return socket && ::send(socket->number(), word.data(), word.size(), MSG_NOSIGNAL) ==
                           static_cast<ssize_t>(word.size());
    }));
  }
  std::this_thread::sleep_for(100ms);  // so that several have proven themselves by then
  for (int i = 0; i < 8; ++i) {
    const auto accepted = listener.accept(soon());
    REQUIRE(accepted);
    std::string text(9, ' ');
    struct pollfd wanted {
      accepted->connection.number(), POLLIN, 0
    };
    REQUIRE(::poll(&wanted, 1, 20'000) == 1);
    CHECK(::recv(wanted.fd, text.data(), text.size(), 0) == 9);
    CHECK(text == "process " + std::to_string(accepted->process));
  }
  for (auto& joined : joining) CHECK(joined.get());
}

TEST_CASE("one who listens without the token is not joined", "[threads]") {
  Listener listener(true, random_token());
  MeetingPoint other = listener.point();
  other.token = random_token();
  auto joined = std::async(std::launch::async, [&] { return join(other, 0); });
  CHECK_FALSE(listener.accept(std::chrono::steady_clock::now() + 300ms));
  CHECK_FALSE(joined.get().has_value());
}

TEST_CASE("texts that are no meeting points are none") {
  for (const char* const text : {"", "{", "[]", "{}", R"({"addresses":["a"],"port":1})",
                                 R"({"addresses":[],"port":1,"token":"00"})",
                                 R"({"addresses":"x","port":1,"token":"00"})"}) {
    CHECK_FALSE(meeting_point_from(text));
  }
}

TEST_CASE("a process knows from its launcher which one it is") {
  CHECK_FALSE(place_in({}));
  CHECK_FALSE(place_in({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}));
  const auto mpi = place_in({{"OMPI_COMM_WORLD_RANK", "3"},
                             {"OMPI_COMM_WORLD_SIZE", "8"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}});
  REQUIRE(mpi);
  CHECK(mpi->process == 3);
  CHECK(mpi->count == 8);
  CHECK_FALSE(mpi->one_machine);
  // A script of SLURM has its own number of tasks; only what srun starts has that of a step.
  std::map<std::string, std::string> slurm = {
      {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "17"}};
  CHECK_FALSE(place_in(slurm));
  slurm.merge(std::map<std::string, std::string>{{"SLURM_STEP_NUM_TASKS", "4"},
                                                 {"SLURM_STEP_NUM_NODES", "1"},
                                                 {"SLURM_STEP_ID", "2"},
                                                 {"SLURM_SUBMIT_DIR", "/home/a"}});
  const auto task = place_in(slurm);
  REQUIRE(task);
  CHECK(task->one_machine);
  CHECK(task->meeting_file == "/home/a/.meshwright-17-2");
  CHECK_FALSE(place_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}})->meeting_file);
  CHECK_THROWS_WITH(place_in({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}),
                    "PMI_SIZE is 2, but PMI_RANK is 2");
  CHECK_THROWS_WITH(place_in({{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}),
                    "PMI_RANK: expected a whole number, found x");
}

}  // namespace meshwright
