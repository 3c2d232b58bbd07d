#ifndef PARAMD_COORDINATOR_CORE_EVALUATIONS_H_
#define PARAMD_COORDINATOR_CORE_EVALUATIONS_H_

#include <cstdint>

#include "coordinator/core/job_view.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// Which epoch the chief's worker is to evaluate next, and what it found last.
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

  // The job begins after so many epochs.
  void GoOnBehind(uint32_t epochs) { epochs_ = epochs; }
  // It goes back to there.
  void GoBackTo(uint32_t epochs) {
    newest_.Clear();
    epochs_ = epochs;
  }

 private:
  uint32_t epochs_ = 0;  // Evaluated, or before the job began.
  v1::Evaluation newest_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_EVALUATIONS_H_
