#ifndef PARAMD_TESTS_SIM_ARBITER_H_
#define PARAMD_TESTS_SIM_ARBITER_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "coordinator/election/candidacy.h"

namespace paramd {

// What an etcd does for an election of one key: leases that end unless they are
// kept alive, a key that is created if there is none and goes with its lease,
// and a revision that grows with each change. Whether it is reached is the
// caller's affair: what is called here has happened.
//
// Not thread-safe. `now` never goes back.
class SimArbiter {
 public:
  // A lease of that length.
  int64_t Grant(absl::Duration ttl, absl::Duration now);
  // Whether the lease had not ended, and so begins again.
  bool KeepAlive(int64_t lease, absl::Duration now);
  // Ends it, and the key that is bound to it.
  void Revoke(int64_t lease, absl::Duration now);

  // The key, nullopt if there is none.
  absl::optional<EtcdKey> Get(absl::Duration now);
  // Creates it, if there is none and the lease has not ended: the revision,
  // else 0.
  uint64_t Create(const std::string& value, int64_t lease, absl::Duration now);
  // Removes it if it is the one that was created at that revision.
  void Delete(uint64_t create_revision, absl::Duration now);

  // To which lease the key of that revision was bound. REQUIRES: there was one.
  int64_t LeaseOf(uint64_t create_revision) const {
    return created_.at(create_revision);
  }
  // How many keys there were.
  uint64_t elections() const { return created_.size(); }

 private:
  struct Lease {
    absl::Duration ttl;
    absl::Duration ends;
  };
  // What is over by now is gone.
  void PassTo(absl::Duration now);

  uint64_t revision_ = 1;
  int64_t leases_granted_ = 0;
  std::map<int64_t, Lease> leases_;
  absl::optional<EtcdKey> key_;
  std::map<uint64_t, int64_t> created_;  // Leases of keys, by revision.
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_ARBITER_H_
