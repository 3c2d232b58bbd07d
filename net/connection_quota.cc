#include "net/connection_quota.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "base/log.h"

namespace paramd {
namespace {

// What HTTP/2 and TLS add to a message: of each frame and record, of 16 KiB,
// and of the call, beside its metadata: the method, the address, what kind of
// content it is, and three frames.
constexpr uint64_t kPartBeside = 32;
constexpr uint64_t kBesideAMessage = 512;
// HTTP/2 has a byte for metadata that the connection had before.
constexpr uint64_t kMostMetadata = 3584;
// A peer acknowledges what it reads: 13 bytes for some tens of KiB.
constexpr uint64_t kPartAcknowledged = 256;

// The kernel's tcp_info as words of 64 bits. The C library's ends before these:
// tcpi_bytes_acked and tcpi_bytes_received, which Linux has since 4.1.
constexpr int kTcpInfo = 11;
using TcpInfo = std::array<uint64_t, 17>;
constexpr size_t kBytesAcked = 15;
constexpr size_t kBytesReceived = 16;

absl::optional<UnfinishedBytes::Counts> CountsOf(int fd) {
  TcpInfo info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, kTcpInfo, info.data(), &size) != 0 ||
      size < sizeof(info)) {
    return absl::nullopt;
  }
  return UnfinishedBytes::Counts{info[kBytesReceived], info[kBytesAcked]};
}

// Nobody says when gRPC closes a connection; but then its number is that of
// another file, or of none.
bool IsOpen(int fd, ino_t inode) {
  struct stat status = {};
  return fstat(fd, &status) == 0 && status.st_ino == inode;
}

}  // namespace

void UnfinishedBytes::Finished(uint64_t bytes, uint64_t metadata) {
  finished_ += bytes + bytes / kPartBeside + kBesideAMessage +
               std::min(metadata, kMostMetadata);
}

uint64_t UnfinishedBytes::Update(const Counts& counts) {
  const uint64_t made_up =
      finished_ + (counts.sent - last_.sent) / kPartAcknowledged;
  unfinished_ += counts.received - last_.received;
  unfinished_ -= std::min(unfinished_, made_up);
  last_ = counts;
  finished_ = 0;
  return unfinished_;
}

void ConnectionQuota::LimitTogether(uint64_t bytes, uint64_t spared) {
  MutexLock lock(&mutex_);
  most_together_ = bytes;
  spared_ = spared;
}

void ConnectionQuota::Opened(int fd) {
  auto key = PeerKeyOf(fd);
  struct stat status = {};
  if (!key.has_value() || !CountsOf(fd).has_value() ||
      fstat(fd, &status) != 0) {
    return;
  }
  MutexLock lock(&mutex_);
  const auto [it, is_new] =
      open_.try_emplace(*std::move(key), Connection{fd, status.st_ino, {}});
  if (is_new) return;
  // One that was reset has no peer any more, also before gRPC closes it.
  if (!IsOpen(it->second.fd, it->second.inode) ||
      !PeerKeyOf(it->second.fd).has_value()) {
    it->second = {fd, status.st_ino, {}};
    return;
  }
  CountClosed("another one has its address and port", it->first,
              it->second.bytes, most_);
  shutdown(fd, SHUT_RDWR);
}

void ConnectionQuota::Finished(absl::string_view peer, uint64_t bytes,
                               uint64_t metadata) {
  const std::string key = PeerKey(peer);
  MutexLock lock(&mutex_);
  const auto found = open_.find(key);
  if (found != open_.end()) found->second.unfinished.Finished(bytes, metadata);
}

bool ConnectionQuota::Look() {
  MutexLock lock(&mutex_);
  uint64_t together = 0;
  for (auto it = open_.begin(); it != open_.end();) {
    Connection& connection = it->second;
    const auto counts = CountsOf(connection.fd);
    if (!counts.has_value() || !IsOpen(connection.fd, connection.inode)) {
      it = open_.erase(it);
      continue;
    }
    connection.bytes = connection.unfinished.Update(*counts);
    if (connection.bytes > most_) {
      it = Close(it, "it sends what is no message within the limits", most_);
      continue;
    }
    together += connection.bytes;
    ++it;
  }
  CloseTheLargest(together);
  return !open_.empty();
}

void ConnectionQuota::CloseTheLargest(uint64_t together) {
  while (together > most_together_) {
    const auto largest = std::max_element(
        open_.begin(), open_.end(), [](const auto& a, const auto& b) {
          return a.second.bytes < b.second.bytes;
        });
    if (largest == open_.end() || largest->second.bytes <= spared_) return;
    together -= largest->second.bytes;
    Close(largest,
          "too much has been received that is no message yet, and most of it "
          "is its",
          most_together_);
  }
}

ConnectionQuota::Connections::iterator ConnectionQuota::Close(
    Connections::iterator connection, const char* why, uint64_t limit) {
  const Connection& closed = connection->second;
  // Since it was looked at gRPC may have closed it.
  if (IsOpen(closed.fd, closed.inode)) {
    CountClosed(why, connection->first, closed.bytes, limit);
    shutdown(closed.fd, SHUT_RDWR);
  }
  return open_.erase(connection);
}

void ConnectionQuota::CountClosed(const char* why, const std::string& peer,
                                  uint64_t bytes, uint64_t limit) {
  const uint64_t times = ++closed_;
  if ((times & (times - 1)) != 0) return;
  Log(LogLevel::kWarning, "a connection is closed",
      {{"why", why},
       {"peer", peer},
       {"times", times},
       {"bytes", bytes},
       {"limit", limit}});
}

uint64_t ConnectionQuota::closed() const {
  MutexLock lock(&mutex_);
  return closed_;
}

std::string PeerKey(absl::string_view peer) {
  return absl::StrReplaceAll(
      peer.substr(peer.find(':') + 1),
      {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}, {"%25", "%"}});
}

absl::optional<std::string> PeerKeyOf(int fd) {
  sockaddr_storage peer = {};
  socklen_t size = sizeof(peer);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) {
    return absl::nullopt;
  }
  return PeerKeyOf(peer);
}

absl::optional<std::string> PeerKeyOf(const sockaddr_storage& peer) {
  char text[INET6_ADDRSTRLEN];
  if (peer.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return absl::StrCat(text, ":", ntohs(v4.sin_port));
  }
  if (peer.ss_family != AF_INET6) return absl::nullopt;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(peer);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof(text));
    return absl::StrCat(text, ":", ntohs(v6.sin6_port));
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  // As gRPC says it: by its number, not by the interface's name.
  const std::string scope =
      v6.sin6_scope_id == 0 ? "" : absl::StrCat("%", v6.sin6_scope_id);
  return absl::StrCat(text, scope, ":", ntohs(v6.sin6_port));
}

}  // namespace paramd
