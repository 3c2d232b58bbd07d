#ifndef PARAMD_COORDINATOR_CORE_PORTIONS_H_
#define PARAMD_COORDINATOR_CORE_PORTIONS_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "absl/types/optional.h"

#include "coordinator/core/epochs.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// Hands out the input: portions of each epoch's permutation, in order, each to
// one worker. What a lost worker had not finished is handed out again first.
//
// Invariant: every example of every epoch is in exactly one of: not handed out,
// to be handed out again, leased, finished.
//
// Not thread-safe: lives inside the coordinator's core.
class Portions {
 public:
  // `size`: examples in a portion; a multiple of the batch, so that only an
  // epoch's last batch is short. REQUIRES: `size` > 0, and if all epochs are
  // known, that they have examples.
  Portions(Epochs epochs, uint64_t size);
  Portions(const Portions&) = delete;

  const Epochs& epochs() const { return epochs_; }
  // What was found of a training set that grows. False, and no change, if that
  // does not follow (Epochs::Add).
  bool OnFound(const v1::EpochFiles& found);
  // No epoch that is known is untouched.
  bool all_begun() const;

  // Goes on where `saved` ends. REQUIRES: nothing was handed out.
  void Restore(const v1::SavedInput& saved);
  // The same, and whatever was handed out is nobody's any more.
  void Restart(const v1::SavedInput& saved);

  // The next portion, leased to `worker`; unset if none is left to hand out
  // now.
  absl::optional<v1::Portion> Take(uint32_t worker);
  // What `worker` holds since before Restart(), and nobody else: a portion, or
  // part by part what is left of it. Its id is above all that the worker has
  // used, and later ones are above it.
  void Lease(uint32_t worker, const v1::Portion& portion);
  // Ids from here on are above this one.
  void SkipIds(uint64_t id) { next_id_ = std::max(next_id_, id + 1); }
  // All leases of `worker` with ids up to `id` are used up, and returned.
  // Again: no change.
  std::vector<v1::Portion> Finish(uint32_t worker, uint64_t id);
  // What the leases of a worker that is gone have left is handed out again: as
  // its cut says, as in Save, or, without one, all of them. Returns what they
  // have used.
  std::vector<v1::Portion> Return(uint32_t worker,
                                  const v1::WorkerCut* cut = nullptr);

  // Every example of every epoch that is known was used; and no other epoch
  // will come.
  bool all_used() const { return unfinished_.empty(); }
  bool finished() const { return all_used() && epochs_.complete(); }
  // Epochs of which every example was used.
  uint32_t epochs_finished() const;
  // Of every epoch that is known the share of its examples that was used.
  double epochs_done() const;

  // What remains to be used if each worker's leases are used as far as its cut
  // says; of a worker without a cut, and of a lease it has not heard of yet,
  // nothing is.
  v1::SavedInput Save(const std::map<uint32_t, v1::WorkerCut>& cuts) const;

  // What is left of a lease, or of a part of one, if its worker used it as far
  // as `cut` says; null: it used nothing. A cut can't say more than the lease
  // has. May be empty.
  static v1::Portion Left(const v1::Portion& leased, const v1::WorkerCut* cut);
  // Adds it to `saved`, unless it is empty.
  static void AddLeft(const v1::Portion& portion, v1::SavedInput* saved);

 private:
  struct Leased {
    uint32_t worker;
    v1::Portion portion;
  };

  using Leases = std::multimap<uint64_t, Leased>;  // By id.
  // By worker and id: who says something of its own leases is no reason to
  // walk through those of all workers.
  using Held = std::multimap<std::pair<uint32_t, uint64_t>, Leases::iterator>;

  void AddLease(uint32_t worker, const v1::Portion& portion);
  // The one behind it.
  Held::iterator EndLease(Held::iterator held);
  void MarkUsed(const v1::Portion& portion);

  Epochs epochs_;
  const uint64_t size_;
  uint32_t next_epoch_ = 1;
  uint64_t next_offset_ = 0;
  uint64_t next_id_ = 1;
  std::deque<v1::Portion> again_;
  Leases leases_;                            // Bound: each worker's.
  Held held_;                                // The same.
  std::map<uint32_t, uint64_t> unfinished_;  // Examples left, by open epoch.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_PORTIONS_H_
