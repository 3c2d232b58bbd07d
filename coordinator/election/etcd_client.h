#ifndef PARAMD_COORDINATOR_ELECTION_ETCD_CLIENT_H_
#define PARAMD_COORDINATOR_ELECTION_ETCD_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/security/credentials.h"

#include "base/mutex.h"
#include "config/election_place.h"
#include "proto/etcd/etcd.pb.h"

namespace paramd {

// What an election asks of etcd, each call waiting for its answer. A member of
// etcd that does not answer is passed over for the next one.
//
// A call that fails returns UNAVAILABLE with the address and the reason in a
// few words: "etcd at 10.0.0.7:2379: refused". Whether etcd did what was asked
// is then not known.
//
// Thread-safe.
class EtcdClient {
 public:
  // Of one call to one member.
  static constexpr absl::Duration kPatience = absl::Seconds(1);

  // `tls_directory`: has ca.crt, tls.crt and tls.key; empty: without TLS.
  // INVALID_ARGUMENT naming the file that can't be read.
  static absl::StatusOr<std::unique_ptr<EtcdClient>> Create(
      const EtcdPlace& place, const std::string& tls_directory);
  ~EtcdClient();

  struct Found {
    absl::optional<etcdserverpb::KeyValue>
        kv;                // Nullopt: there is no such key.
    int64_t revision = 0;  // Of all that etcd has.
  };
  absl::StatusOr<Found> Get(const std::string& key);

  // A lease of at least `ttl`, rounded up to seconds; its id.
  absl::StatusOr<int64_t> Grant(absl::Duration ttl);
  // Whether the lease had not ended, and so begins again.
  absl::StatusOr<bool> KeepAlive(int64_t lease);
  // Ends it, and with it the keys that are bound to it.
  absl::Status Revoke(int64_t lease);

  // Creates the key, for as long as the lease lasts, if there is none; the
  // revision at which it was created, 0 if there was one already.
  absl::StatusOr<int64_t> CreateKey(const std::string& key,
                                    const std::string& value, int64_t lease);
  // Removes it if it is the one that was created at that revision.
  absl::Status DeleteKey(const std::string& key, int64_t create_revision);

  // Waits until the key has changed after `revision`, `most` at most.
  absl::Status WaitForChange(const std::string& key, int64_t revision,
                             absl::Duration most);

  // Ends the calls under way, and those to come, as failed.
  void Cancel();

 private:
  EtcdClient(const EtcdPlace& place,
             const std::shared_ptr<grpc::ChannelCredentials>& credentials);

  // One request and the first of its answers that `is_last` takes.
  template <typename Request, typename Reply, typename IsLast>
  absl::Status CallOne(size_t member, const char* method, bool streams,
                       const Request& request, absl::Duration patience,
                       Reply* reply, IsLast is_last);
  // The same of the first member that answers.
  template <typename Request, typename Reply>
  absl::Status Call(const char* method, bool streams, const Request& request,
                    Reply* reply);
  bool Begin(grpc::ClientContext* context);
  void End(grpc::ClientContext* context);

  const std::vector<std::string> endpoints_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;  // One a member.
  std::atomic<size_t> member_{0};                         // That answered last.
  Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> under_way_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_ELECTION_ETCD_CLIENT_H_
