#ifndef PARAMD_WORKER_CORE_PUSH_CUT_H_
#define PARAMD_WORKER_CORE_PUSH_CUT_H_

#include <cstdint>

#include "proto/paramd/v1/control.pb.h"

namespace paramd {

// Where a worker's pushes are divided for a snapshot: those up to the cut are
// in it, those after it carry its number, as their stamp, for life. The cut
// can be made at any time: a push that is open belongs before it, the next one
// after.
//
// Invariant: a snapshot is cut at most once, and the stamps of later pushes are
// never lower.
//
// Not thread-safe: part of a worker's core.
class PushCut {
 public:
  // A new session begins, whose pushes are not after any cut.
  void BeginSession() { *this = PushCut(); }

  // Whether the coordinator's answer, which names this snapshot (zero: none),
  // asks for a cut that was not made: the caller makes it before its next push.
  bool IsAsked(const v1::SnapshotNumber& snapshot) const;
  // `cut`: what is to be said. REQUIRES: IsAsked(cut.snapshot()).
  void Make(const v1::WorkerCut& cut);

  // The newest snapshot that was cut; zero: none was.
  const v1::SnapshotNumber& stamp() const { return cut_.snapshot(); }
  // The newest cut, when so many pushes are acknowledged or given up.
  v1::WorkerCut Said(uint64_t pushes_acknowledged) const;

  // The coordinator answered to somebody who said this.
  void Heard(const v1::WorkerCut& said);
  // The coordinator knows the newest cut. A worker does not leave before: what
  // it pushed after the cut would count as before it.
  bool is_heard() const { return heard_; }

 private:
  v1::WorkerCut cut_;
  bool heard_ = true;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_PUSH_CUT_H_
