#include "net/memory_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

constexpr uint8_t kFormat = 1;
constexpr int kMemoryBacklog = 64;

absl::Status Failed(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(errno)));
}

absl::StatusOr<OwnedFd> MakeSocket() {
  OwnedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return Failed("no socket");
  return fd;
}

struct Address {
  sockaddr_un name = {};
  socklen_t size = 0;

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&name);
  }
};

// A zero before the name: no file. False if it is too long.
bool Fill(const std::string& name, Address* address) {
  if (name.empty() || name.size() >= sizeof(address->name.sun_path)) {
    return false;
  }
  address->name.sun_family = AF_UNIX;
  memcpy(address->name.sun_path + 1, name.data(), name.size());
  address->size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return true;
}

absl::Status BadName(const std::string& name) {
  return absl::UnavailableError(
      absl::StrCat("a socket's name cannot have ", name.size(), " bytes"));
}

// Room for one descriptor; the kernel closes any more.
union Control {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr aligned;
};

// Every descriptor that came, or it would stay open: CMSG_SPACE has room for
// two where one is wanted.
std::vector<OwnedFd> ReceivedIn(msghdr* message) {
  std::vector<OwnedFd> received;
  for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr;
       header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      received.emplace_back(fd);
    }
  }
  return received;
}

}  // namespace

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

OwnedFd::~OwnedFd() {
  if (fd_ >= 0) close(fd_);
}

std::string SharedMachineName() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network = {};
  if (boot.empty() || stat("/proc/self/ns/net", &network) != 0) return "";
  return absl::StrCat(boot, "/", network.st_ino);
}

absl::StatusOr<OwnedFd> ListenInMemory(const std::string& name) {
  Address address;
  if (!Fill(name, &address)) return BadName(name);
  auto fd = MakeSocket();
  if (!fd.ok()) return fd;
  if (bind(fd->get(), address.get(), address.size) != 0 ||
      listen(fd->get(), kMemoryBacklog) != 0) {
    return Failed("cannot listen");
  }
  return fd;
}

absl::StatusOr<OwnedFd> ConnectInMemory(const std::string& name) {
  Address address;
  if (!Fill(name, &address)) return BadName(name);
  auto fd = MakeSocket();
  if (!fd.ok()) return fd;
  if (connect(fd->get(), address.get(), address.size) != 0) {
    return Failed("cannot connect");
  }
  return fd;
}

absl::Status CheckSameUser(int fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return Failed("nobody known at the other end");
  }
  return CheckSameUser(peer, geteuid());
}

absl::Status CheckSameUser(const ucred& peer, uid_t self) {
  if (peer.uid == 0 || peer.uid == self) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("process ", peer.pid, " is of user ", peer.uid,
                   "; this one is of user ", self));
}

absl::Status SendMemory(int fd, int memory) {
  uint8_t format = kFormat;
  iovec content = {&format, sizeof(format)};
  Control control = {};
  msghdr message = {};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &memory, sizeof(int));
  if (sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(format)) {
    return Failed("cannot hand over memory");
  }
  return absl::OkStatus();
}

absl::StatusOr<OwnedFd> ReceiveMemory(int fd) {
  uint8_t format = 0;
  iovec content = {&format, sizeof(format)};
  Control control = {};
  msghdr message = {};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  const ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  std::vector<OwnedFd> received;
  if (got >= 0) received = ReceivedIn(&message);
  if (got != sizeof(format) || format != kFormat || received.size() != 1) {
    return absl::UnavailableError("no memory was handed over");
  }
  return std::move(received[0]);
}

absl::Status SendMemoryId(int fd, uint64_t id) {
  if (send(fd, &id, sizeof(id), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(id)) {
    return Failed("cannot answer");
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ReceiveMemoryId(int fd) {
  uint64_t id = 0;
  const ssize_t got = recv(fd, &id, sizeof(id), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return absl::NotFoundError("no answer yet");
  }
  if (got != sizeof(id)) return absl::UnavailableError("no answer came");
  if (id == 0) return absl::PermissionDeniedError("it was refused");
  return id;
}

}  // namespace paramd
