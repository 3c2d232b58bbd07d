#ifndef PARAMD_NET_OPERATOR_SOCKET_H_
#define PARAMD_NET_OPERATOR_SOCKET_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace paramd {

// A Unix socket in a directory, over which operators call a process of this
// machine. Who may open the file is an operator: it is readable and writable by
// its owner alone from before the first connection can be made. Paths are of
// any length: the directory is named by a descriptor, since a socket's name is
// short (107 bytes).
//
// Thread-compatible. Removes the file when it goes, unless another process has
// taken the name since.
class OperatorSocket {
 public:
  // Listens at `path`, in place of whatever socket was there. kNotFound if the
  // directory is not there; kInvalidArgument, naming the path, if it can't be
  // done, or if something is there that is no socket: it is left alone.
  static absl::StatusOr<std::unique_ptr<OperatorSocket>> Bind(
      const std::string& path);
  ~OperatorSocket();

  // Ready to accept, does not block.
  int fd() const { return fd_; }

 private:
  OperatorSocket(int directory, int fd, std::string name)
      : directory_(directory), fd_(fd), name_(std::move(name)) {}

  const int directory_;
  const int fd_;
  const std::string name_;
  unsigned long inode_ = 0;
};

// How gRPC names the socket at a path of any length, for as long as this lives.
class OperatorAddress {
 public:
  // kNotFound, naming the path, if there is no socket.
  static absl::StatusOr<std::unique_ptr<OperatorAddress>> Of(
      const std::string& path);
  ~OperatorAddress();

  // Whether a process listens there: one that was killed leaves its socket.
  bool IsAlive() const;

  // "unix:/proc/self/fd/7/worker-0.sock"
  const std::string& target() const { return target_; }

 private:
  OperatorAddress(int directory, std::string target)
      : directory_(directory), target_(std::move(target)) {}

  const int directory_;
  const std::string target_;
};

}  // namespace paramd

#endif  // PARAMD_NET_OPERATOR_SOCKET_H_
