#include "bench/overload/hostile_clients.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/byte_buffer.h"

#include "base/check.h"
#include "base/random.h"
#include "bench/overload/overloaded_server.h"
#include "net/descriptors.h"
#include "net/testing/raw_caller.h"
#include "net/testing/raw_connection.h"
#include "net/testing/raw_stream.h"
#include "net/wire_message.h"
#include "proto/paramd/v1/data.pb.h"

namespace paramd {
namespace {

constexpr char kStatus[] = "/paramd.v1.Control/Status";
// Where what there is to do is to wait.
constexpr absl::Duration kPause = absl::Milliseconds(10);

// -1: it can't be had now.
int Connect(const std::string& address) {
  const std::vector<std::string> parts = absl::StrSplit(address, ':');
  int port = 0;
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  CHECK(parts.size() == 2 && absl::SimpleAtoi(parts[1], &port) &&
            inet_pton(AF_INET, parts[0].c_str(), &to.sin_addr) == 1,
        "the address is ip:port");
  to.sin_port = htons(static_cast<uint16_t>(port));
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const timeval second = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0) {
    return fd;
  }
  close(fd);
  return -1;
}

// At once: a port that waits for its end could not be used again meanwhile.
void Close(int fd) {
  const linger none = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
  close(fd);
}

// The other end has closed it, or it is none. What it says is dropped.
bool IsOver(int fd) {
  if (fd < 0) return true;
  char bytes[256];
  ssize_t got = 1;
  while (got > 0) got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
  return got == 0 || errno != EAGAIN;
}

[[noreturn]] void BeSilent(const std::string& address) {
  std::vector<int> open(200, -1);
  for (;; absl::SleepFor(kPause)) {
    for (int& fd : open) {
      if (!IsOver(fd)) continue;
      if (fd >= 0) Close(fd);
      fd = Connect(address);
    }
  }
}

[[noreturn]] void SendGarbage(const std::string& address) {
  RandomStream random(3);
  for (;;) {
    const int fd = Connect(address);
    if (fd < 0) {
      absl::SleepFor(kPause);
      continue;
    }
    std::string bytes(4096, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.Below(256));
    (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    // Until it is closed, a second at most.
    while (recv(fd, bytes.data(), bytes.size(), 0) > 0) {
    }
    Close(fd);
  }
}

[[noreturn]] void NeverEnd(const std::string& address) {
  const std::string part(1 << 20, 'x');
  for (;;) {
    RawConnection connection(address);
    connection.Call(kPush);
    // Not compressed, 2^32 - 1 bytes long.
    connection.SendData(std::string("\0\xff\xff\xff\xff", 5));
    while (connection.SendData(part)) {
    }
    absl::SleepFor(kPause);  // There may be no port left for another one.
  }
}

// The same request for ever.
[[noreturn]] void Repeat(const std::string& address, const std::string& path,
                         const std::string& who, const std::string& request) {
  RawCaller caller(address);
  for (;;) (void)caller.Call(path, who, request);
}

std::string Oversized() {
  v1::PushRequest push = PushOf(/*worker=*/1, /*sequence=*/1, /*block=*/0);
  push.set_payload(std::string(8 << 20, 'x'));
  return push.SerializeAsString();
}

std::string Stale() {
  v1::PushRequest push = PushOf(/*worker=*/1, /*sequence=*/1, /*block=*/0);
  push.mutable_header()->mutable_generation()->set_counter(1);
  const Buffer gradient = Gradient();
  push.set_payload(gradient.bytes().data(), gradient.size());
  return push.SerializeAsString();
}

[[noreturn]] void NeverRead(const std::string& address) {
  for (;;) {
    std::vector<std::unique_ptr<RawStream>> readers;
    for (uint32_t i = 0; i < 16; ++i) {
      readers.push_back(std::make_unique<RawStream>(address, kPull));
      readers.back()->Send(
          PullOf(i % 4 * kBlocksOfASlice, /*count=*/kBlocksOfASlice));
      readers.back()->HalfClose();
    }
    absl::SleepFor(absl::Seconds(2));
  }
}

struct Cancelled {
  grpc::ClientContext context;
  grpc::ByteBuffer reply;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader;
};

[[noreturn]] void Cancel(const std::string& address) {
  const auto channel =
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(channel);
  for (;;) {
    std::vector<std::unique_ptr<Cancelled>> calls;
    for (uint32_t i = 0; i < 64; ++i) {
      calls.push_back(std::make_unique<Cancelled>());
      Cancelled& call = *calls.back();
      const uint32_t block = i % 4 * kBlocksOfASlice;
      call.reader = stub.PrepareUnaryCall(
          &call.context, kPull,
          EncodeMessage(PullOf(block, /*count=*/kBlocksOfASlice), {}), &queue);
      call.reader->StartCall();
      call.reader->Finish(&call.reply, &call.status, &call);
    }
    absl::SleepFor(kPause);
    for (const auto& call : calls) call->context.TryCancel();
    void* tag;
    bool ok;
    for (size_t i = 0; i < calls.size(); ++i) queue.Next(&tag, &ok);
  }
}

using Attack = std::function<void(const std::string& address)>;

const std::map<std::string, Attack>& Attacks() {
  static const auto* const attacks = new std::map<std::string, Attack>{
      {"silent", BeSilent},
      {"garbage", SendGarbage},
      {"endless", NeverEnd},
      {"malformed",
       [](const std::string& address) {
         Repeat(address, kPush, "worker/1", "\xc2\x3e\x05");
       }},
      {"oversized",
       [](const std::string& address) {
         Repeat(address, kPush, "worker/1", Oversized());
       }},
      {"stale",
       [](const std::string& address) {
         Repeat(address, kPush, "worker/1", Stale());
       }},
      {"unread", NeverRead},
      {"cancelled", Cancel},
      {"status",
       [](const std::string& address) { Repeat(address, kStatus, "", ""); }},
  };
  return *attacks;
}

}  // namespace

const std::vector<std::string>& HostileKinds() {
  static const auto* const kinds = [] {
    auto* const made = new std::vector<std::string>();
    for (const auto& [kind, attack] : Attacks()) made->push_back(kind);
    return made;
  }();
  return *kinds;
}

std::unique_ptr<Child> MakeHostileClients(
    const std::string& address, const std::vector<std::string>& kinds) {
  return std::make_unique<Child>("paramd-hostile", [&]() -> Child::Serve {
    (void)PlaceClients();
    setpriority(PRIO_PROCESS, 0, 19);
    RaiseDescriptorLimit();
    for (const std::string& kind : kinds) {
      std::thread(Attacks().at(kind), address).detach();
    }
    return [](const std::string&) { return std::string("they are at it"); };
  });
}

}  // namespace paramd
