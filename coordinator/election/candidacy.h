#ifndef PARAMD_COORDINATOR_ELECTION_CANDIDACY_H_
#define PARAMD_COORDINATOR_ELECTION_CANDIDACY_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace paramd {

// Who the leader is, as its key says: "10.0.0.7:7077 747ec24aae5d4e75
// 1f0c…", its address, its incarnation and the run that it has.
struct ElectedChief {
  std::string address;
  uint64_t incarnation = 0;
  uint64_t run = 0;

  std::string ToText() const;
  // Nullopt: it is not such a text.
  static absl::optional<ElectedChief> FromText(absl::string_view text);
};

// The key of an election, as etcd has it.
struct LeaderKey {
  std::string value;  // An ElectedChief's text, if it is one of paramd's.
  // Of all that etcd has: the leader's token.
  uint64_t create_revision = 0;
  int64_t lease = 0;
};

// A process that stands: what it knows when it looks at the key.
struct Candidate {
  ElectedChief self;
  // The incarnation of one that is known to have ended. 0: none.
  uint64_t replaces = 0;
  // The newest that it asked for, to which a key of its own is bound. 0: none.
  int64_t lease = 0;
};

// What a candidate does next.
enum class CandidateMove {
  kCreate,     // There is no key: it creates one, with a lease for it.
  kIsElected,  // The key is its own; the answer to its creation was lost.
  kRemove,     // The key is that of the one that has ended.
  kStandBy,    // Somebody leads, and is waited for.
  kNotOurs,    // The key is not one of paramd's.
  kOtherRun,   // Who leads has the directory of another run.
};
// By what was found at the key; nullopt: there is none. A key that is bound to
// an earlier lease of this process is somebody else's: it goes with that lease,
// which nobody renews.
CandidateMove NextMove(const Candidate& candidate,
                       const absl::optional<LeaderKey>& found);

// Where the chief listens, for whoever is not the chief: what the key said
// last, also while nobody is elected.
//
// Not thread-safe.
class FollowedChief {
 public:
  // `address`: what it is until a key was found.
  explicit FollowedChief(std::string address) : address_(std::move(address)) {}

  // What the key was found to be; whether the chief is elsewhere since then.
  // One that is not paramd's says nothing.
  bool Found(const absl::optional<LeaderKey>& key);
  const std::string& address() const { return address_; }

 private:
  std::string address_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_ELECTION_CANDIDACY_H_
