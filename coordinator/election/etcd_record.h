#ifndef PARAMD_COORDINATOR_ELECTION_ETCD_RECORD_H_
#define PARAMD_COORDINATOR_ELECTION_ETCD_RECORD_H_

#include <memory>
#include <string>

#include "config/election_place.h"
#include "coordinator/election/chief_record.h"
#include "coordinator/election/etcd_client.h"

namespace paramd {

// A key of etcd, which its holder creates and which goes with a lease that the
// holder keeps alive. The revision at which it was created is the token.
class EtcdRecord final : public ChiefRecord {
 public:
  EtcdRecord(const EtcdPlace& place, std::unique_ptr<EtcdClient> client);

  absl::StatusOr<absl::optional<Holder>> Look() override;
  absl::Status WaitForChange(absl::Duration most) override;
  absl::StatusOr<uint64_t> Take(const std::string& text,
                                absl::Duration ttl) override;
  absl::StatusOr<bool> Renew() override;
  absl::Status Release() override;
  absl::Status Remove() override;
  void Cancel() override { client_->Cancel(); }
  absl::Duration longest_renewal() const override;
  absl::string_view keeper() const override { return "etcd"; }
  std::string place() const override { return place_.ToString(); }
  std::string NotOurs() const override;

 private:
  const EtcdPlace place_;
  const std::string key_;
  const std::unique_ptr<EtcdClient> client_;
  EtcdClient::Found found_;  // By the last Look.
  int64_t lease_ = 0;
  int64_t created_ = 0;  // The revision at which this process created the key.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_ELECTION_ETCD_RECORD_H_
