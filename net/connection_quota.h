#ifndef PARAMD_NET_CONNECTION_QUOTA_H_
#define PARAMD_NET_CONNECTION_QUOTA_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "base/mutex.h"

namespace paramd {

// What one connection has sent that belongs to no message yet. The kernel
// counts the bytes that came in and went out, the server the messages that they
// were. What both sides send to keep the protocol going is in the kernel's
// count only; an allowance for each message and its metadata, and for each byte
// that goes out, makes up for it. What it is too large by hides as much of what
// is no message.
class UnfinishedBytes {
 public:
  // Both from when the connection was opened on.
  struct Counts {
    uint64_t received = 0;
    uint64_t sent = 0;
  };

  // A message of so many bytes is there, and the metadata of its call: of that
  // 3.5 KiB are believed.
  void Finished(uint64_t bytes, uint64_t metadata);
  // What is not part of any, by counts that never fall.
  uint64_t Update(const Counts& counts);

 private:
  Counts last_;
  uint64_t finished_ = 0;  // Since the last update.
  uint64_t unfinished_ = 0;
};

// Closes connections that send more than can become messages within their
// limits. gRPC looks at a message's length when it has all of the message; the
// kernel counts its bytes as they come. gRPC has one memory for what all of
// them send: when that is used up, it closes connections in an order of its
// own, idle ones first. So who has sent most of it is closed before.
//
// Invariant: of a connection over TCP at most `most` bytes, and what comes
// between two looks, belong to no message. Of all together at most as many as
// LimitTogether says, and what comes between two looks, unless none has more
// than it spares. Bound: an entry for each connection that is open, until the
// look after its end.
//
// Thread-safe.
class ConnectionQuota {
 public:
  explicit ConnectionQuota(uint64_t most) : most_(most) {}

  // Of all connections together so many bytes may belong to no message; beyond
  // that, who has most is closed, unless that is `spared` or less. At first
  // there is no such limit.
  void LimitTogether(uint64_t bytes, uint64_t spared);

  // This socket was accepted. One that is not TCP is not counted. Messages say
  // only their peer's address and port: where a connection to another address
  // of this machine has come from the same, this one is shut down.
  void Opened(int fd);
  // gRPC's name for a peer, "ipv4:10.0.0.7:40112", a message that it sent, and
  // the metadata of its call.
  void Finished(absl::string_view peer, uint64_t bytes, uint64_t metadata);
  // Shuts down who is over the quota, and logs it the 1st, 2nd, 4th, 8th …
  // time. Whether any connection is left.
  bool Look();

  // Shut down until now.
  uint64_t closed() const;

 private:
  struct Connection {
    int fd;
    ino_t inode;
    UnfinishedBytes unfinished;
    uint64_t bytes = 0;  // Of them, at the last look.
  };
  using Connections = std::map<std::string, Connection, std::less<>>;

  // The one behind it.
  Connections::iterator Close(Connections::iterator connection, const char* why,
                              uint64_t limit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountClosed(const char* why, const std::string& peer, uint64_t bytes,
                   uint64_t limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of all that is open so many bytes belong to no message.
  void CloseTheLargest(uint64_t together) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t most_;
  mutable Mutex mutex_;
  uint64_t most_together_ ABSL_GUARDED_BY(mutex_) = UINT64_MAX;
  uint64_t spared_ ABSL_GUARDED_BY(mutex_) = 0;
  Connections open_ ABSL_GUARDED_BY(mutex_);  // By PeerKey.
  uint64_t closed_ ABSL_GUARDED_BY(mutex_) = 0;
};

// "10.0.0.7:40112", "fd00::1:40112" or, of a link with number 2,
// "fe80::1%2:40112" of gRPC's name, whatever quotes and brackets that has.
std::string PeerKey(absl::string_view peer);
// The same of a connected socket and of an address; nothing if it is not of IP.
absl::optional<std::string> PeerKeyOf(int fd);
absl::optional<std::string> PeerKeyOf(const sockaddr_storage& peer);

}  // namespace paramd

#endif  // PARAMD_NET_CONNECTION_QUOTA_H_
