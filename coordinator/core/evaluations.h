#ifndef PARAMD_COORDINATOR_CORE_EVALUATIONS_H_
#define PARAMD_COORDINATOR_CORE_EVALUATIONS_H_

#include <cstdint>
#include <set>

#include "absl/types/optional.h"

#include "coordinator/core/job_view.h"
#include "coordinator/core/test_parts.h"
#include "coordinator/core/turn.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/paramd/v1/test_part.pb.h"

namespace paramd {

// Which epoch the chief's worker is to evaluate next, and what was found last.
// The final evaluation, when nobody trains any more, is shared by all workers
// that have the chief's test set; what they count is put together as one whole
// evaluation would have counted it.
//
// Invariant: all parts of one final evaluation are of the same weights: where a
// server loses its, it begins anew.
//
// Not thread-safe: a part of the coordinator's core.
class Evaluations {
 public:
  // Of no epoch: there was none yet. Of no examples: the model evaluates
  // nothing.
  const v1::Evaluation& newest() const { return newest_; }

  // The chief's worker says this of itself again and again. True if it found
  // something new.
  bool OnHeartbeat(const v1::Evaluation& evaluation) {
    if (evaluation.epoch() == 0 ||
        (evaluation.epoch() <= epochs_ && !evaluation.final())) {
      return false;
    }
    newest_ = evaluation;
    epochs_ = evaluation.epoch();
    return evaluation.examples() > 0;
  }
  // 0: none. The final one covers the last epoch.
  uint32_t EpochToEvaluate(const JobView& job) const {
    const uint32_t every = job.options.job.evaluate_every_epochs();
    if (job.phase != JobPhase::kRunning || every == 0) return 0;
    const uint32_t done = job.progress.EpochsFinished();
    if (done >= job.options.job.epochs()) return 0;
    const uint32_t next = done / every * every;
    return next > epochs_ ? next : 0;
  }

  // ---- the final one, by several
  // Whether it is; else by the chief's worker alone.
  static bool AreShared(const JobView& job) {
    return job.options.workers > 1 && job.options.test_set != 0;
  }
  // Leases parts; with all of them, has them put together and raises Evaluated.
  // `epoch`: of which it is.
  void AdvanceShared(uint32_t epoch, Turn* turn);
  // To be evaluated by the worker; nothing: none.
  absl::optional<v1::TestPart> PartOf(uint32_t worker) const;
  void OnTested(uint32_t worker, const v1::TestedBatches& tested);
  // Whom it waits for, if it is shared and under way.
  absl::optional<uint32_t> awaited(const JobView& job) const;
  // What was counted may be of other weights than what will be.
  void BeginAgain() { parts_.reset(); }

  // ---- where the job goes on
  // The job begins after so many epochs.
  void GoOnBehind(uint32_t epochs) { epochs_ = epochs; }
  // It goes back to there.
  void GoBackTo(uint32_t epochs) {
    newest_.Clear();
    epochs_ = epochs;
    BeginAgain();
  }

 private:
  TestParts::Sessions WhoTakesPart(Turn* turn);
  void Merge(uint32_t epoch, Turn* turn);
  void OnMerged(const IoResult& result, Turn* turn);

  uint32_t epochs_ = 0;  // Evaluated, or before the job began.
  v1::Evaluation newest_;
  uint64_t shared_ = 0;  // Evaluations of this term.
  absl::optional<TestParts> parts_;
  bool merging_ = false;
  std::set<uint32_t> others_;  // Workers that have another test set.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_EVALUATIONS_H_
