#ifndef PARAMD_NET_MEMORY_SOCKET_H_
#define PARAMD_NET_MEMORY_SOCKET_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paramd {

// What is said over a Unix socket without a file when memory is handed over,
// one message each way:
//
//     client ── one byte, the format, and the memory's descriptor ──► server
//     client ◄─────── eight bytes: the memory's id; 0: refused ────── server
//
// The connection then stays, in silence: the memory is in use for as long as it
// does. Nothing here waits.

// A descriptor that is closed when it goes. Movable.
class OwnedFd {
 public:
  explicit OwnedFd(int fd = -1) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  ~OwnedFd();

  int get() const { return fd_; }

 private:
  int fd_;
};

// What processes have in common that can hand each other memory: the run of the
// kernel and the network namespace, of which the sockets' names are.
std::string SharedMachineName();

// Listens under `name`, which nobody may have. Errors are kUnavailable with the
// system's words.
absl::StatusOr<OwnedFd> ListenInMemory(const std::string& name);
// Connects, without waiting: if the other end has no place left, it fails.
absl::StatusOr<OwnedFd> ConnectInMemory(const std::string& name);

// kPermissionDenied, naming both users, if whoever has the other end of the
// connection is neither this user nor root.
absl::Status CheckSameUser(int fd);
// The same of process `peer`.
absl::Status CheckSameUser(const ucred& peer, uid_t self);

// kUnavailable if the connection is of no use.
absl::Status SendMemory(int fd, int memory);
absl::Status SendMemoryId(int fd, uint64_t id);

// Each kUnavailable if the other end has closed or says something else.
// ReceiveMemory: the descriptor. ReceiveMemoryId: kNotFound if there is no
// answer yet, kPermissionDenied if it is a refusal.
absl::StatusOr<OwnedFd> ReceiveMemory(int fd);
absl::StatusOr<uint64_t> ReceiveMemoryId(int fd);

}  // namespace paramd

#endif  // PARAMD_NET_MEMORY_SOCKET_H_
