#ifndef PARAMD_COORDINATOR_ELECTION_LEASE_RECORD_H_
#define PARAMD_COORDINATOR_ELECTION_LEASE_RECORD_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

#include "base/clock.h"
#include "base/mutex.h"
#include "base/time.h"
#include "config/election_place.h"
#include "coordinator/election/api_calls.h"
#include "coordinator/election/chief_record.h"

namespace paramd {

// A Lease of Kubernetes (coordination.k8s.io/v1), used as its own components
// use theirs (client-go, tools/leaderelection): whoever writes itself into
// holderIdentity holds it, and writes renewTime again and again. Every write
// names the resourceVersion that it follows, so of two only one succeeds. Who
// looks on never compares clocks: a holder is dead once its record has not
// changed for its leaseDurationSeconds by the looker's clock. Time in which the
// API server did not answer does not count, as the holder could not write then.
//
// The token is leaseTransitions + 1: every Take that finds a Lease adds one. A
// Lease that was deleted begins again with 1, as an etcd that lost its data.
//
// Thread-safe but as ChiefRecord says.
class LeaseRecord final : public ChiefRecord {
 public:
  // For how long a refusal (403) may be one of rights that were granted just
  // now, before it is a mistake.
  static constexpr absl::Duration kRightsSettle = absl::Seconds(5);

  // `look_again`: how long WaitForChange waits, so that a holder that resigns
  // is followed within that. `now`: the monotonic clock. REQUIRES: the place
  // has a namespace.
  LeaseRecord(const LeasePlace& place, std::unique_ptr<ApiCalls> api,
              absl::Duration look_again,
              std::function<Time()> now = MonotonicNow);

  absl::StatusOr<absl::optional<Holder>> Look() override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status WaitForChange(absl::Duration most) override
      ABSL_LOCKS_EXCLUDED(waiting_);
  absl::StatusOr<uint64_t> Take(const std::string& text,
                                absl::Duration ttl) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<bool> Renew() override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Release() override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Remove() override ABSL_LOCKS_EXCLUDED(mutex_);
  void Cancel() override ABSL_LOCKS_EXCLUDED(waiting_);
  absl::Duration longest_renewal() const override;
  absl::string_view keeper() const override { return "the API server"; }
  std::string place() const override { return place_.ToString(); }
  std::string NotOurs() const override;

 private:
  using Json = nlohmann::json;

  // The Lease as it is; null: there is none.
  absl::StatusOr<Json> GetLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes it if it is still the version that `lease` has, or makes it if
  // `lease` has none. False: it is another one by now.
  absl::StatusOr<bool> WriteLocked(const Json& lease)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The error for an answer that a request of that kind ("get") does not
  // expect.
  absl::Status RefusedLocked(const std::string& verb,
                             const ApiCalls::Answer& answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether this process holds that one, by the token that it took.
  bool IsMineLocked(const Json& lease) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts for how long it has been as it is.
  void ObserveLocked(const Json& lease, Time asked)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const LeasePlace place_;
  const std::string collection_;  // The path of the namespace's Leases.
  const std::unique_ptr<ApiCalls> api_;
  const absl::Duration look_again_;
  const std::function<Time()> now_;

  Mutex mutex_;
  Json found_ ABSL_GUARDED_BY(mutex_);  // By the last Look. Null: none.
  bool expired_ ABSL_GUARDED_BY(mutex_) = false;  // Its holder is dead.
  std::string self_ ABSL_GUARDED_BY(mutex_);      // What Take was given.
  uint64_t token_ ABSL_GUARDED_BY(mutex_) = 0;    // Of this process.

  // What Observe knows: the record, for how long it has not changed while it
  // was looked at, and when it was looked at last, if that was answered.
  absl::optional<std::string> record_ ABSL_GUARDED_BY(mutex_);
  bool has_changed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration unchanged_ ABSL_GUARDED_BY(mutex_);
  absl::optional<Time> looked_ ABSL_GUARDED_BY(mutex_);
  // By verb: the first of the refusals (403) since it was last allowed.
  std::map<std::string, Time> refused_ ABSL_GUARDED_BY(mutex_);

  Mutex waiting_;
  CondVar cancelled_now_;
  bool cancelled_ ABSL_GUARDED_BY(waiting_) = false;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_ELECTION_LEASE_RECORD_H_
