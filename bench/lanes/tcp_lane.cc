#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/time/time.h"

#include "base/check.h"
#include "base/clock.h"
#include "bench/lanes/lane.h"

namespace paramd {
namespace {

void ReadAll(int fd, char* bytes, uint64_t size) {
  while (size > 0) {
    const ssize_t got = read(fd, bytes, std::min(size, kChunkBytes));
    CHECK(got > 0, "the other end of the connection sends");
    bytes += got;
    size -= got;
  }
}

void WriteAll(int fd, const char* bytes, uint64_t size) {
  while (size > 0) {
    const ssize_t put = write(fd, bytes, std::min(size, kChunkBytes));
    CHECK(put > 0, "the other end of the connection reads");
    bytes += put;
    size -= put;
  }
}

void SendAtOnce(int fd) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

// One client, until it hangs up. It says what it will do in a byte; the server
// takes the bytes and says so in another, or sends them.
constexpr char kPush = 'p';
constexpr char kPull = 'g';

[[noreturn]] void ServeTcp(int listener, uint64_t bytes) {
  const int fd = accept(listener, nullptr, nullptr);
  CHECK(fd >= 0, "a client connects");
  SendAtOnce(fd);
  std::vector<char> memory(bytes);
  char what;
  while (read(fd, &what, 1) == 1) {
    if (what == kPush) {
      ReadAll(fd, memory.data(), bytes);
      WriteAll(fd, &what, 1);
    } else {
      WriteAll(fd, memory.data(), bytes);
    }
  }
  _exit(0);
}

void MoveOnce(int fd, Transfer transfer, std::vector<char>* memory) {
  char what = kPull;
  if (transfer != Transfer::kPush) {
    WriteAll(fd, &what, 1);
    ReadAll(fd, memory->data(), memory->size());
  }
  if (transfer != Transfer::kPull) {
    what = kPush;
    WriteAll(fd, &what, 1);
    WriteAll(fd, memory->data(), memory->size());
    ReadAll(fd, &what, 1);
  }
}

}  // namespace

std::unique_ptr<Lane> MakeTcpLane(uint64_t bytes, CpuPlacement placement) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  CHECK(bind(listener, generic, size) == 0 && listen(listener, 1) == 0 &&
            getsockname(listener, generic, &size) == 0,
        "a free port can be listened at");
  auto server = std::make_unique<Child>("tcp-server", [&]() -> Child::Serve {
    Place(placement, /*server=*/true);
    ServeTcp(listener, bytes);
  });
  auto client = std::make_unique<Child>("tcp-client", [&]() -> Child::Serve {
    Place(placement, /*server=*/false);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(fd, generic, size) == 0, "the server listens");
    SendAtOnce(fd);
    auto memory = std::make_shared<std::vector<char>>(bytes);
    return [fd, memory](const std::string& line) {
      const MoveRequest request = ParseMoveRequest(line);
      CHECK(request.transfer != Transfer::kSmall, "TCP has no small requests");
      std::vector<double> seconds;
      const Time start = MonotonicNow();
      for (int i = 0; i < request.times; ++i) {
        const Time begin = MonotonicNow();
        MoveOnce(fd, request.transfer, memory.get());
        seconds.push_back(absl::ToDoubleSeconds(MonotonicNow() - begin));
      }
      return MovedLine(absl::ToDoubleSeconds(MonotonicNow() - start), seconds);
    };
  });
  close(listener);
  return std::make_unique<Lane>("TCP", std::move(server), std::move(client));
}

}  // namespace paramd
