#ifndef PARAMD_COORDINATOR_CORE_STARTUP_H_
#define PARAMD_COORDINATOR_CORE_STARTUP_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "coordinator/core/epochs.h"
#include "coordinator/core/run_record.h"
#include "coordinator/core/take_over.h"
#include "coordinator/core/turn.h"

namespace paramd {

// How the job begins under this coordinator, for every part of it.
struct StartPlan {
  v1::Configuration configuration;  // But for members and version.
  // The newest checkpoint; none: the job has made no step yet. Of no path: its
  // variables are others, so servers take values alone of it.
  absl::optional<v1::Manifest> newest;
  std::string path;
  uint64_t step = 0;  // After it.

  // Servers keep what they hold. What follows is set only then.
  bool takes_over = false;
  std::vector<ServerRecord> servers;          // Which lives, and of which path.
  std::map<uint32_t, WorkerRecord> sessions;  // Those that go on, by worker.
  std::vector<v1::SavedSession> ended_sessions;
  uint64_t pushes_before = 0;  // Of sessions that do not go on.
  v1::SavedInput input_left;
};

// Begins the job, from the newest checkpoint or with what servers hold:
//
//   log read ─► term taken ─► servers recalled ─► checkpoint found ─► plan
//                                   ▲                                   │
//                  a damaged one is passed over                         ▼
//                                   └───────── filling ◄─── layout logged
//
// Invariants: a term is this coordinator's alone. Servers are told a layout
// when the log has it. A checkpoint that was passed over is not found again.
//
// Not thread-safe: a part of the coordinator's core.
class Startup {
 public:
  explicit Startup(const CoordinatorOptions& options);

  // What the log and the job are; the run's time.
  const RunRecord& record() const { return record_; }
  Time started() const { return started_; }

  // ---- in this order
  // Raises LogRead, then RunFinished or, with each step, Reached.
  void Begin(Turn* turn);
  void OnRecalled(uint32_t server, const v1::RecallReply& reply);
  // Looks for a checkpoint when all servers are recalled: raises
  // CheckpointFound. Raises Reached when they are filled. `retired`: as the log
  // has them.
  void Advance(const std::vector<v1::SnapshotNumber>& retired, Turn* turn);
  // What the log says of the mode.
  struct LoggedMode {
    absl::optional<v1::Consistency> mode;
    absl::optional<uint64_t> decay_steps;
    bool was_changed = false;  // To or from sync.
    absl::optional<double> rate_scale;
  };
  // Tells people of it too. An error ends the job. `epochs`: those that are
  // known.
  absl::StatusOr<StartPlan> Plan(const v1::FindCheckpointResult& found,
                                 const Epochs& epochs, const LoggedMode& logged,
                                 Turn* turn);
  // The configuration, as every server is to be told it. Raises Reached now and
  // when the log has it.
  void LogLayout(v1::LogEntry entry, Turn* turn);

  // ---- what may come between
  // A server could not restore this one: looks for an older one.
  void PassOver(const v1::SnapshotNumber& number, const std::string& path,
                const std::string& why,
                const std::vector<v1::SnapshotNumber>& retired, Turn* turn);
  // What no server can read now the next coordinator may.
  void OnDamageThatMayPass() { damage_may_pass_ = true; }
  // All servers go back to a checkpoint.
  void BeginAgain(Time now) {
    starting_since_ = now;
    keeps_content_ = false;
  }
  // Whether servers hold, as far as is known, what no checkpoint may have.
  bool MayHoldPushes() const {
    return keeps_content_ || take_over_.AnyHoldsSlices();
  }
  // Whether servers that have not answered may hold some.
  bool MayAnyHoldSlices() const { return had_layout_; }
  // Ends the process if this takes longer than the job's start_timeout.
  void CheckPatience(Turn* turn) const;

 private:
  void OnLogRead(const IoResult& result, Turn* turn);
  void OnTermTaken(const IoResult& result, Turn* turn);
  void Find(const std::vector<v1::SnapshotNumber>& retired, Turn* turn);
  void OnFound(const std::vector<v1::SnapshotNumber>& retired,
               const IoResult& result, Turn* turn);
  absl::Status CheckFound(const v1::FindCheckpointResult& found,
                          const std::vector<v1::SnapshotNumber>& retired,
                          const CoordinatorOptions& options) const;
  void OnLayoutLogged(const IoResult& result, Turn* turn);
  uint64_t DecaySteps(const LoggedMode& logged, bool sync,
                      const CoordinatorOptions& options) const;
  absl::Status PlanMode(const LoggedMode& logged,
                        const CoordinatorOptions& options,
                        v1::Configuration* planned) const;
  void CountPushes(StartPlan* plan) const;
  void PlanTakeOver(const JobView& job, const Epochs& epochs,
                    StartPlan* plan) const;

  RunRecord record_;
  Time started_;
  Time starting_since_;  // Or since all servers go back to a checkpoint.
  std::map<uint32_t, v1::SessionId> fences_;  // In the log; of each the newest.
  TakeOver take_over_;
  bool keeps_content_ = false;  // Servers do, by the plan.
  bool had_layout_ = false;     // By the log servers were told one.
  // Checkpoints that a server could not restore, and whether one may later.
  // Bound: those of the directory, each once.
  std::vector<v1::FindCheckpoint::Damaged> damaged_;
  bool damage_may_pass_ = false;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_STARTUP_H_
