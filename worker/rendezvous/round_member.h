#ifndef PARAMD_WORKER_RENDEZVOUS_ROUND_MEMBER_H_
#define PARAMD_WORKER_RENDEZVOUS_ROUND_MEMBER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/membership.pb.h"

namespace paramd {

// What comes from the network as the chief's answer to `worker`, one of so
// many: INVALID_ARGUMENT unless its round, if there is one, is of workers of
// the job with this one among them, one of whom has the content, and has the
// links of all of them or none.
absl::Status CheckReply(const v1::BeatReply& reply, uint32_t worker,
                        size_t workers);

// What one worker knows of rounds, and what it says to the chief's Rendezvous.
//
// Invariants: the round that it is in is larger than all that it has left. It
// says that it waits only while it is in none.
//
// Not thread-safe: a core.
class RoundMember {
 public:
  RoundMember(uint32_t worker, uint64_t incarnation) {
    self_.set_worker(worker);
    self_.set_incarnation(incarnation);
  }

  // ---- what is said and heard
  const v1::BeatRequest& said() const { return self_; }
  // True: the round that it was in is over.
  bool Hear(const v1::BeatReply& reply);
  void SetModel(uint32_t crc32c) { self_.set_model_crc32c(crc32c); }

  // ---- the round that it is in; of number 0: none
  const v1::BeatReply& round() const { return round_; }
  bool is_in_one() const { return round_.round() != 0; }
  // Its place among the round's workers.
  size_t rank() const;
  // How the others reach it in this round.
  void Link(const std::vector<std::string>& links);
  // All have said how they are reached.
  bool all_have_linked() const {
    return round_.links_size() == round_.workers_size();
  }
  // Gives the round up. REQUIRES: is_in_one().
  void Leave();

  // ---- where it is
  void Wait(bool waits) { self_.set_waits(waits); }
  bool waits() const { return self_.waits(); }
  // It is about to make this step.
  void StandBefore(const v1::StepPosition& step);
  // It has made the step before which it stood, with these figures of all.
  void Made(absl::Span<const double> figures);
  // It has made all steps.
  void StandAtTheEnd();
  bool has_content() const { return self_.has_next() || self_.ended(); }

  // OK if the round makes the step before which this worker stands, or nobody
  // in it had content when it began. Else ABORTED, naming both places: it has
  // to begin anew. REQUIRES: is_in_one().
  absl::Status CheckPlace() const;

  // What becomes of a step that failed. `has_sums`: all sums were there, but
  // not the figures. REQUIRES: is_in_one().
  enum class Verdict {
    kMakeAgain,
    kIsMade,  // Another one has its figures, round().figures: all had the sums.
    kElsewhere,  // As CheckPlace says.
  };
  Verdict VerdictOf(bool has_sums) const;

 private:
  v1::BeatRequest self_;
  v1::BeatReply round_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_RENDEZVOUS_ROUND_MEMBER_H_
