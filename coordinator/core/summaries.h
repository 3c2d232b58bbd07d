#ifndef PARAMD_COORDINATOR_CORE_SUMMARIES_H_
#define PARAMD_COORDINATOR_CORE_SUMMARIES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/types/optional.h"

#include "coordinator/core/training_loss.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

// What is written for TensorBoard, and when: every so many steps, and at once
// when the job goes on from a step or an evaluation was made.
//
// Invariant: one summary is under way at a time. What is due meanwhile is in
// the next one.
//
// Not thread-safe: lives inside the coordinator's core.
class Summaries {
 public:
  // 0: nothing is ever written.
  explicit Summaries(uint64_t every_steps) : every_steps_(every_steps) {}

  // The job goes on from this step: what was written for later ones is void.
  void Begin(uint64_t step);
  // What server `server` said last. Counts that are lower than before are those
  // of another life.
  void Told(uint32_t server, const v1::ConfigureReply& reply);
  // The newest one, which may be told again and again.
  void Evaluated(const v1::Evaluation& evaluation);

  // Of the loss, which counts whether or not summaries are written.
  TrainingLoss& training() { return training_; }
  const TrainingLoss& training() const { return training_; }

  // Whether there is something to write at this step, up to which workers have
  // told their losses. `ending`: nothing may come after it, so that what is new
  // is written however few steps it is of.
  // `complete`: every worker has told all that it did up to this step; else
  // nothing of the loss is written yet.
  bool IsDue(uint64_t step, bool ending = false, bool complete = true) const;
  // Whether figures would be written at this step if all were told.
  bool WantsFigures(uint64_t step) const {
    return every_steps_ > 0 && !writing_ && step >= next_;
  }
  // The summary of it; `workers` are the newest words of those that live. It is
  // under way until Written. REQUIRES: IsDue, with the
  // same.
  std::unique_ptr<v1::WriteSummary> Take(
      uint64_t step, const std::vector<const v1::WorkerStats*>& workers,
      bool ending = false, bool complete = true);
  void Written() { writing_ = false; }

 private:
  struct Server {
    v1::Staleness newest;
    v1::Staleness taken;  // Of the summary before.
    double learning_rate = 0;
  };

  // Since the last call.
  v1::Staleness TakeStaleness();
  bool HasFigures(uint64_t step, bool ending, bool complete) const {
    return (complete && step >= next_) ||
           (ending && training_.has_unreported());
  }
  double LearningRate() const;

  const uint64_t every_steps_;
  uint64_t next_ = 0;
  bool writing_ = false;
  // Those that are to be written.
  absl::optional<uint64_t> begin_;
  absl::optional<v1::Evaluation> evaluation_;
  v1::Evaluation last_evaluation_;      // That was told.
  std::map<uint32_t, Server> servers_;  // Bound: the job's servers.
  TrainingLoss training_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_SUMMARIES_H_
