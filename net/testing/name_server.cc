#include "net/testing/name_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

constexpr size_t kHeaderBytes = 12;
constexpr size_t kMostBytes = 512;
constexpr unsigned char kTypeA = 1;
constexpr unsigned char kNoSuchName = 3;

}  // namespace

NameServer::NameServer() : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in self = {};
  self.sin_family = AF_INET;
  self.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(self);
  auto* const generic = reinterpret_cast<sockaddr*>(&self);
  if (bind(fd_, generic, size) != 0) std::abort();
  if (getsockname(fd_, generic, &size) != 0) std::abort();
  port_ = ntohs(self.sin_port);
  thread_ = std::thread([this] { Serve(); });
}

NameServer::~NameServer() {
  shutdown(fd_, SHUT_RDWR);
  thread_.join();
  close(fd_);
}

std::string NameServer::Target(absl::string_view host_and_port) const {
  return absl::StrCat("dns://127.0.0.1:", port_, "/", host_and_port);
}

void NameServer::SetAddress(const std::string& ipv4) {
  address_ = inet_addr(ipv4.c_str());
}

// RFC 1035: the question is echoed; an answer points back to its name.
void NameServer::Serve() {
  unsigned char packet[kMostBytes + 16];
  sockaddr_in asker = {};
  socklen_t size = sizeof(asker);
  auto* const generic = reinterpret_cast<sockaddr*>(&asker);
  while (true) {
    const ssize_t bytes = recvfrom(fd_, packet, kMostBytes, 0, generic, &size);
    if (bytes <= 0) return;
    size_t end = kHeaderBytes;
    while (end < static_cast<size_t>(bytes) && packet[end] != 0) {
      end += packet[end] + 1;
    }
    end += 5;  // The root, type and class.
    if (end > static_cast<size_t>(bytes)) continue;
    const uint32_t address = address_;
    const bool answer = address != 0 && packet[end - 3] == kTypeA;
    packet[2] = 0x84;  // An answer, by authority.
    packet[3] = address == 0 ? kNoSuchName : 0;
    std::memset(packet + 4, 0, kHeaderBytes - 4);
    packet[5] = 1;
    packet[7] = answer ? 1 : 0;
    if (answer) {
      const unsigned char record[] = {
          0xc0, kHeaderBytes, 0, kTypeA, 0, 1, 0, 0, 0, 0, 0, 4};
      std::memcpy(packet + end, record, sizeof(record));
      std::memcpy(packet + end + sizeof(record), &address, sizeof(address));
      end += sizeof(record) + sizeof(address);
    }
    sendto(fd_, packet, end, 0, generic, size);
  }
}

}  // namespace paramd
