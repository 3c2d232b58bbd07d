#ifndef PARAMD_COORDINATOR_ELECTION_TESTING_FAKE_ETCD_H_
#define PARAMD_COORDINATOR_ELECTION_TESTING_FAKE_ETCD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/types/optional.h"
#include "grpcpp/server.h"

#include "base/mutex.h"
#include "base/time.h"
#include "proto/etcd/etcd.pb.h"

namespace paramd {

// One etcd in this process, with the calls that an election needs, served by
// gRPC: keys with their revisions, leases, transactions, watches of one key.
// Leases end by the clock, or when the test says so.
//
// Thread-safe.
class FakeEtcd {
 public:
  FakeEtcd();
  ~FakeEtcd();

  // "127.0.0.1:12345"; the same after Return.
  const std::string& endpoint() const { return endpoint_; }

  // Answers nobody until Return; what it has stays.
  void GoAway();
  // As an etcd with a new leader, which lets all leases begin again.
  void Return();
  // And has nothing any more.
  void LoseAll();

  void EndAllLeases();
  void Put(const std::string& key, const std::string& value);
  void Delete(const std::string& key);
  absl::optional<etcdserverpb::KeyValue> Get(const std::string& key) const;
  size_t leases() const;
  // Answers to that many transactions are lost; what they do is done.
  void LoseAnswers(int transactions);

 private:
  class Service;
  struct Lease {
    int64_t ttl = 0;
    Time end;
  };

  void Start();
  // The calls.
  void Range(const etcdserverpb::RangeRequest& request,
             etcdserverpb::RangeResponse* reply);
  bool Txn(const etcdserverpb::TxnRequest& request,
           etcdserverpb::TxnResponse* reply);
  void Grant(const etcdserverpb::LeaseGrantRequest& request,
             etcdserverpb::LeaseGrantResponse* reply);
  bool Revoke(int64_t id);
  int64_t KeepAlive(int64_t id);
  // False while nothing changed; waits a moment for that.
  bool HasChanged(const std::string& key, int64_t from);

  void ExpireLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLeaseLocked(int64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PutLocked(const std::string& key, const std::string& value,
                 int64_t lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DeleteLocked(const std::string& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::string endpoint_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t revision_ ABSL_GUARDED_BY(mutex_) = 1;
  int64_t last_lease_ ABSL_GUARDED_BY(mutex_) = 100;
  int answers_to_lose_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, etcdserverpb::KeyValue> keys_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> changes_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, Lease> leases_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_ELECTION_TESTING_FAKE_ETCD_H_
