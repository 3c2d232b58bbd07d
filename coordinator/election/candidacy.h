#ifndef PARAMD_COORDINATOR_ELECTION_CANDIDACY_H_
#define PARAMD_COORDINATOR_ELECTION_CANDIDACY_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace paramd {

// Who the leader is, as the record says: "10.0.0.7:7077 747ec24aae5d4e75
// 1f0c…", its address, its incarnation and the run that it has.
struct ElectedChief {
  std::string address;
  uint64_t incarnation = 0;
  uint64_t run = 0;

  std::string ToText() const;
  // Nullopt: it is not such a text.
  static absl::optional<ElectedChief> FromText(absl::string_view text);
};

// The holder of the record of who is the chief, as its keeper says.
struct ChiefHolder {
  std::string text;      // What it gave to take it.
  uint64_t token = 0;    // Each later holder has a higher one.
  bool is_self = false;  // This process took it.
  // It has been seen alive since this process began to look. Otherwise it may
  // be dead: what it left behind stays for a while.
  bool is_alive = false;
};

// A key of etcd, which goes with the lease that it is bound to.
struct EtcdKey {
  std::string value;
  uint64_t create_revision = 0;  // Of all that etcd has: the token.
  int64_t lease = 0;
};
// Who holds it, for the process whose newest lease is `own` (0: none): nobody
// if there is no such key. A key that is bound to an earlier lease of the
// process is somebody else's, as it goes with that lease, which nobody renews.
absl::optional<ChiefHolder> HolderOf(const absl::optional<EtcdKey>& key,
                                     int64_t own);

// A process that stands for election.
struct Candidate {
  ElectedChief self;
  // The incarnation of one that is known to have ended. 0: none.
  uint64_t replaces = 0;
};

// What a candidate does next.
enum class CandidateMove {
  kTake,       // Nobody holds the record.
  kIsElected,  // It holds the record; the answer to taking it was lost.
  kRemove,     // The holder is the one that has ended.
  kStandBy,    // Somebody leads, or may, and is waited for.
  kNotOurs,    // The record is not one of paramd's.
  kOtherRun,   // Who leads has the directory of another run.
};
// By who was found to hold the record; nullopt: nobody.
CandidateMove NextMove(const Candidate& candidate,
                       const absl::optional<ChiefHolder>& found);

// Where the chief listens, for whoever is not the chief: what the record said
// last, also while nobody holds it.
//
// Not thread-safe.
class FollowedChief {
 public:
  // `address`: what it is until a holder was found.
  explicit FollowedChief(std::string address) : address_(std::move(address)) {}

  // Who was found to hold the record; whether the chief is elsewhere since
  // then. A record that is not paramd's says nothing.
  bool Found(const absl::optional<ChiefHolder>& holder);
  const std::string& address() const { return address_; }

 private:
  std::string address_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_ELECTION_CANDIDACY_H_
