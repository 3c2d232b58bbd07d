#ifndef PARAMD_COORDINATOR_CORE_MODE_CHANGES_H_
#define PARAMD_COORDINATOR_CORE_MODE_CHANGES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "coordinator/core/mode_change.h"
#include "coordinator/core/turn.h"

namespace paramd {

// Changes the mode when an operator asks for it, and knows what the log says of
// earlier changes.
//
// Invariants: at most one change is under way. It holds when the log has it;
// the operator is answered then, or when it is given up.
//
// Not thread-safe: a part of the coordinator's core.
class ModeChanges {
 public:
  // What else keeps a change back.
  struct Obstacles {
    bool draining = false;         // The chief's process.
    bool snapshot = false;         // One is open, or needed to leave with.
    bool steps_under_way = false;  // Sync mode does not stand still.
  };

  // ---- what the log says
  // An entry of it. True if the mode went to or from sync with it.
  bool Read(const v1::Configuration& logged);
  // The newest one.
  const absl::optional<v1::Consistency>& logged_mode() const {
    return logged_mode_;
  }
  // As of the newest change to or from sync.
  const absl::optional<uint64_t>& logged_decay_steps() const {
    return logged_decay_steps_;
  }
  // To or from sync, in this run.
  bool has_changed() const { return has_changed_; }

  // ---- a change
  void OnSet(const Message& message, const v1::SetRequest& request,
             const Obstacles& obstacles, Turn* turn);
  void OnHeartbeat(const v1::HeartbeatRequest& request) {
    if (change_.has_value()) change_->Heard(request);
  }
  // Stops workers, logs and gives up when it is time to. Raises ModeLogged.
  void Advance(const Obstacles& obstacles, Turn* turn);
  // What is of the old mode has ended: the new one holds. REQUIRES: ModeLogged
  // is being delivered.
  void Finish(Turn* turn);
  // Null: none was asked for.
  const ModeChange* change() const { return change_ ? &*change_ : nullptr; }
  // Between its beginning and its end no snapshot is opened and nobody joins.
  bool IsUnderWay() const {
    return change_.has_value() &&
           change_->stage() != ModeChange::Stage::kWaiting;
  }
  // Sessions end with the entry that is being logged.
  bool IsLoggingEndOfSessions() const {
    return change_.has_value() && change_->ends_sessions() &&
           change_->stage() == ModeChange::Stage::kLogging;
  }
  bool StopsWorkers() const {
    return change_.has_value() && change_->stops_workers();
  }
  // REQUIRES: IsUnderWay().
  std::string waiting_for(const JobView& job) const;

 private:
  absl::Status CheckMaySet(const JobView& job) const;
  bool MayStop(const Obstacles& obstacles, const JobView& job) const;
  bool EverybodyStopped(const JobView& job) const;
  void GiveUp(absl::string_view why, Turn* turn);
  void Log(Turn* turn);
  void OnLogged(const IoResult& result, Turn* turn);

  absl::optional<ModeChange> change_;
  absl::optional<v1::Consistency> logged_mode_;
  absl::optional<uint64_t> logged_decay_steps_;
  bool has_changed_ = false;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_MODE_CHANGES_H_
