#ifndef PARAMD_COORDINATOR_ELECTION_CHIEF_WATCH_H_
#define PARAMD_COORDINATOR_ELECTION_CHIEF_WATCH_H_

#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "base/mutex.h"
#include "config/election_place.h"
#include "coordinator/election/candidacy.h"
#include "coordinator/election/etcd_client.h"

namespace paramd {

// Where the elected chief listens, for a process that is not the chief: what
// etcd said last, also while nobody is elected and while etcd is away.
//
// Thread-safe. A thread of its own asks etcd, until the destructor.
class ChiefWatch {
 public:
  // `address`: what it is until etcd says something. Errors as of
  // EtcdClient::Create; an etcd that is away is none.
  static absl::StatusOr<std::unique_ptr<ChiefWatch>> Start(
      const ElectionPlace& place, const std::string& tls_directory,
      const std::string& address);
  ~ChiefWatch();
  ChiefWatch(const ChiefWatch&) = delete;
  ChiefWatch& operator=(const ChiefWatch&) = delete;

  std::string address() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  ChiefWatch(const ElectionPlace& place, std::unique_ptr<EtcdClient> client,
             const std::string& address);

  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Looks at the key, and waits until it may be another one.
  absl::Status Look() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string key_;
  const std::unique_ptr<EtcdClient> client_;
  mutable Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  FollowedChief chief_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_ELECTION_CHIEF_WATCH_H_
