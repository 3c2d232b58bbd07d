#ifndef PARAMD_COORDINATOR_CORE_PORTION_LEDGER_H_
#define PARAMD_COORDINATOR_CORE_PORTION_LEDGER_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

#include "coordinator/core/growing_input.h"
#include "coordinator/core/input_holders.h"
#include "coordinator/core/portions.h"
#include "coordinator/core/step_times.h"
#include "coordinator/core/turn.h"

namespace paramd {

// The input of all modes but sync: who has which of it, and how many pushes
// were made of it.
//
// Invariant: a portion is one worker's until that has used it or is gone. A
// repeated request has the same answer.
//
// Not thread-safe: a part of the coordinator's core.
class PortionLedger {
 public:
  using Cuts = JobProgress::Cuts;

  explicit PortionLedger(const CoordinatorOptions& options);

  // ---- beginning
  // So many pushes were made, and this is left; nobody holds any of it.
  void GoOnFrom(uint64_t pushes, const v1::SavedInput& left);
  // The same, but of `left` these workers hold what only they know.
  void TakeOver(uint64_t pushes, const v1::SavedInput& left,
                std::set<uint32_t> holders);
  // What is awaited of workers is of no account.
  void ForgetHolders() { holders_ = InputHolders(); }
  const InputHolders& holders() const { return holders_; }
  // Of a worker that has not told what it holds: whether it does with this
  // heartbeat. If not, the call is answered by the question, and true.
  bool AskWhatItHolds(const Message& message,
                      const v1::HeartbeatRequest& request, Turn* turn);
  // All have told. REQUIRES: holders().complete().
  void HandOver() { holders_.HandOver(&portions_); }

  // ---- portions
  // A request of a present session. `told`: the snapshot that workers are told
  // of, null for none, and whether it has a cut of this one. Raises InputUsed.
  // False if it is refused.
  struct Snapshot {
    v1::SnapshotNumber number;
    bool has_cut = false;
  };
  bool OnTake(const Message& message, const v1::PortionRequest& request,
              const Snapshot* told, Turn* turn);
  // It is fenced. What it has used, as far as it has said.
  std::vector<v1::Portion> OnWorkerGone(uint32_t index,
                                        const WorkerRecord& worker);
  void OnSessionsEnded();
  const Portions& portions() const { return portions_; }
  GrowingInput& growing() { return growing_; }
  const GrowingInput& growing() const { return growing_; }

  // ---- pushes
  // Of sessions that are gone, before a restart too.
  uint64_t pushes_before() const { return pushes_before_; }
  // Steps of another mode count as pushes that were made before.
  void CountBefore(uint64_t steps) { pushes_before_ = steps; }
  // Of all that ever were.
  uint64_t Pushes(const JobView& job) const;
  // As of these cuts, and as far as workers have told their losses.
  uint64_t PushesAt(const Cuts& cuts, const JobView& job) const;
  uint64_t PushesTold(const JobView& job) const;

  // ---- how long a step takes
  StepTimes& step_times() { return step_times_; }
  absl::Duration longest_step() const { return step_times_.longest(); }

 private:
  // To the newest request of a session.
  struct Answer {
    uint64_t number = 0;
    v1::PortionReply reply;
  };

  // The next portion for a worker, or when to ask for one.
  v1::PortionReply Next(uint32_t index);

  const uint32_t retry_ms_;  // Where none is left of an input that grows.
  Portions portions_;
  GrowingInput growing_;  // Finds them, if the training set grows.
  InputHolders holders_;
  absl::flat_hash_map<uint32_t, Answer> answers_;  // By worker.
  uint64_t pushes_before_ = 0;
  StepTimes step_times_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_PORTION_LEDGER_H_
