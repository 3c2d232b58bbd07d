#ifndef PARAMD_COORDINATOR_ELECTION_CHIEF_RECORD_H_
#define PARAMD_COORDINATOR_ELECTION_CHIEF_RECORD_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "config/election_place.h"
#include "coordinator/election/candidacy.h"

namespace paramd {

// The record of who is the chief, which is kept outside of the job: a key of an
// etcd, or a Lease of an API server of Kubernetes. At most one process holds it
// at a time, for a limited time that it renews again and again.
//
// If the keeper does not answer, calls return UNAVAILABLE with its address and
// the reason in a few words: "etcd at 10.0.0.7:2379: refused". Whether it did
// what was asked is then not known; the next Look says so.
//
// Renew and Cancel may be called by any thread; the others by one at a time,
// and not while Renew is under way.
class ChiefRecord {
 public:
  using Holder = ChiefHolder;

  virtual ~ChiefRecord() = default;

  // Nullopt: nobody holds it. INVALID_ARGUMENT: this process may not look.
  virtual absl::StatusOr<absl::optional<Holder>> Look() = 0;
  // Waits until there may be something new since the last Look, `most` at most.
  virtual absl::Status WaitForChange(absl::Duration most) = 0;

  // If the last Look found nobody, nor has there been anybody since: takes it
  // for `ttl`, in whole seconds. The token; 0: somebody was faster.
  // INVALID_ARGUMENT: this process may not.
  virtual absl::StatusOr<uint64_t> Take(const std::string& text,
                                        absl::Duration ttl) = 0;
  // Whether this process still holds it; if so, its time begins anew.
  virtual absl::StatusOr<bool> Renew() = 0;
  // So that the next one can take it at once. Does nothing if it was never
  // taken.
  virtual absl::Status Release() = 0;
  // Takes it away from the holder that the last Look found, if that still holds
  // it.
  virtual absl::Status Remove() = 0;

  // Calls of WaitForChange end soon, those under way too.
  virtual void Cancel() = 0;

  // How long Renew may take if nobody answers.
  virtual absl::Duration longest_renewal() const = 0;
  // "etcd", in sentences.
  virtual absl::string_view keeper() const = 0;
  // As setting chief_election has it.
  virtual std::string place() const = 0;
  // What to do about a record that is not paramd's: "the key /x/chief in etcd
  // is not one of paramd's: choose another prefix".
  virtual std::string NotOurs() const = 0;
};

// `directory`: setting chief_election_tls_dir. `look_again`: how often an API
// server is polled, which is not watched. A keeper that is away is no error;
// INVALID_ARGUMENT naming the file that can't be read, or what this process
// lacks as a pod.
absl::StatusOr<std::unique_ptr<ChiefRecord>> OpenChiefRecord(
    const ElectionPlace& place, const std::string& directory,
    absl::Duration look_again);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_ELECTION_CHIEF_RECORD_H_
