#ifndef PARAMD_NET_MEMORY_LISTENER_H_
#define PARAMD_NET_MEMORY_LISTENER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "base/mutex.h"
#include "base/time.h"
#include "net/memory_socket.h"
#include "net/shared_memory.h"
#include "proto/paramd/v1/hello.pb.h"

namespace paramd {

// Takes over memory that processes of this machine make to share it with this
// one, and keeps it for as long as each of them keeps its connection.
//
// Invariant: only processes of the same user, or of root, and only memory as
// SharedMapping::Open takes it. Bound: 64 memories are mapped, those included
// whose process has gone and whose payloads are still read; at most as many
// connections, each of which hands over its memory within 5 s. What is refused
// is counted and logged; its process goes on without.
//
// Ids are drawn by the kernel, 64 bits: nobody but the process that made a
// memory can name it.
//
// Thread-safe. Has a thread of its own, that sleeps until somebody comes or
// goes.
class MemoryListener {
 public:
  static constexpr size_t kMostMemories = 64;

  // Listens from now on. kUnavailable if the system does not let it.
  static absl::StatusOr<std::unique_ptr<MemoryListener>> Start();
  ~MemoryListener();

  // What a process is told that may hand over memory.
  const v1::SharedMemoryOffer& offer() const { return offer_; }

  // The memory of that id. Null: there is none, or its process has gone. What
  // it returns is used on one thread alone.
  std::shared_ptr<SharedMemory> Find(uint64_t id) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // One process: its memory, once it has handed over any.
  struct Connection {
    OwnedFd fd;
    uint64_t id = 0;
    Time until = Time::Never();
  };

  MemoryListener(v1::SharedMemoryOffer offer, OwnedFd listening, OwnedFd stop);
  void Run();
  // How long poll may sleep.
  int Patience() const;
  // False if no descriptor is left.
  bool Accept();
  // False: the connection is over.
  bool Serve(Connection* connection) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status TakeOver(Connection* connection) ABSL_LOCKS_EXCLUDED(mutex_);
  void Drop(const Connection& connection) ABSL_LOCKS_EXCLUDED(mutex_);
  void CountRefusal(const absl::Status& why);

  const v1::SharedMemoryOffer offer_;
  const OwnedFd listening_;
  const OwnedFd stop_;  // Readable when the thread is to end.
  mutable Mutex mutex_;
  // Shared with whoever uses one when its process goes.
  absl::flat_hash_map<uint64_t, std::shared_ptr<SharedMemory>> memories_
      ABSL_GUARDED_BY(mutex_);
  // Of the thread.
  std::vector<Connection> connections_;
  std::vector<std::weak_ptr<const SharedMapping>> mapped_;
  bool out_of_descriptors_ = false;
  uint64_t refused_ = 0;
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_NET_MEMORY_LISTENER_H_
