#ifndef PARAMD_NET_LISTENER_H_
#define PARAMD_NET_LISTENER_H_

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "base/mutex.h"
#include "base/time.h"

namespace paramd {

// Listens and accepts connections, in place of gRPC's own listener, which takes
// any number of them and, once the process has run out of descriptors, never
// accepts one again.
//
// Connections that do not leave the machine are not paced.
//
// Invariant: of the connections that it accepted at its own sockets at most
// `most` are open, or half as many as the process may have descriptors, if that
// is less; at sockets that were added, 32. One more is closed at once, counted
// and logged. So strangers who take up all connections of the first kind keep
// nobody from one of the second.
//
// Thread safety: used on one thread; accepts on a thread of its own.
class Listener {
 public:
  // Takes over `fd`, a connection that came in by `listening_fd`. On the thread
  // of the listener.
  using Take = std::function<void(int listening_fd, int fd)>;

  // Binds `address` as ListenAt does, with its errors.
  static absl::StatusOr<std::unique_ptr<Listener>> Bind(
      const std::string& address, bool or_everywhere, size_t most);
  // Listens nowhere but at what is added.
  static absl::StatusOr<std::unique_ptr<Listener>> Make();
  // Stops accepting and closes its sockets; accepted connections stay.
  ~Listener();

  // Also accepts on `fd`, which listens, does not block and outlives this.
  // REQUIRES: called before Start.
  void Add(int fd) { added_.listening.push_back(fd); }

  // The same for a socket that can't be made yet: asks `open` for it once a
  // second, on the thread of the listener, until that gives it, or -1 for
  // never. REQUIRES: called before Start.
  void AddWhenOpen(std::function<absl::optional<int>()> open) {
    open_ = std::move(open);
  }

  // On the thread of the listener.
  bool IsAdded(int listening_fd) const {
    return std::find(added_.listening.begin(), added_.listening.end(),
                     listening_fd) != added_.listening.end();
  }

  // Whose connections by added sockets, which are Unix sockets, are open now.
  // Any thread.
  std::set<uid_t> UsersOfAdded() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls `look` on the thread of the listener, a tenth of a second after
  // something was accepted and from then on until it answers false; no more
  // often, however many connect. REQUIRES: called before Start.
  void Watch(std::function<bool()> look) { look_ = std::move(look); }

  // Begins to accept. REQUIRES: called once.
  void Start(Take take);

  // Any thread: connections that were closed at the bound, and how often one
  // had to wait for want of a descriptor.
  uint64_t closed_at_once() const { return closed_at_once_; }
  uint64_t without_descriptor() const { return without_descriptor_; }

 private:
  // Sockets, and how many connections of theirs may be open.
  struct Sockets {
    std::vector<int> listening;
    size_t most;
    // Of the thread: descriptor and inode of what was accepted, some of it
    // closed meanwhile.
    std::vector<std::pair<int, ino_t>> open;

    bool HasRoom();
  };

  // Who made a connection by an added socket.
  struct User {
    int fd;
    ino_t inode;
    uid_t uid;
  };

  static absl::StatusOr<std::unique_ptr<Listener>> Make(const std::string& name,
                                                        size_t most);
  Listener(int stop, size_t most);
  void Run();
  // How long to wait for a connection, in milliseconds; -1: for ever.
  int Patience() const;
  // Whether another socket is to be accepted on.
  bool OpenAdded();
  void AcceptAll(Sockets* sockets);
  void Accept(int listening_fd, Sockets* sockets);
  void NoteUser(int fd, ino_t inode) ABSL_LOCKS_EXCLUDED(mutex_);
  void Count(const char* what, size_t most, std::atomic<uint64_t>* times);

  const int stop_;  // Readable when the thread is to end.
  Sockets own_;
  Sockets added_;  // Somebody else's.
  Take take_;
  std::function<absl::optional<int>()> open_;  // Null: nothing is to be added.
  std::function<bool()> look_;                 // May be null.
  bool watching_ = false;                      // Of the thread.
  Time look_at_;                               // If so: when, at the earliest.
  bool out_of_descriptors_ = false;            // Of the thread.
  std::atomic<uint64_t> closed_at_once_{0};
  std::atomic<uint64_t> without_descriptor_{0};
  mutable Mutex mutex_;
  std::vector<User> users_ ABSL_GUARDED_BY(mutex_);  // Some are gone.
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_NET_LISTENER_H_
