#ifndef PARAMD_COORDINATOR_CORE_RUNNING_SETTINGS_H_
#define PARAMD_COORDINATOR_CORE_RUNNING_SETTINGS_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "coordinator/core/turn.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// Settings that an operator may change while the job runs and that change no
// weight: how often there is a checkpoint, what is logged, and whether servers
// are moved by themselves. And who changed those that do, which have parts of
// their own.
//
//   asked ──► logging ──► telling ──► answered
//                         until all servers have it
//
// Invariants: at most one change is under way. A value holds when the log has
// it, and for every later coordinator of the run, whatever its job file says.
//
// Not thread-safe: a part of the coordinator's core.
class RunningSettings {
 public:
  // The keys that OnSet is for.
  static bool Has(absl::string_view key);
  // "'seed' can't be changed while the job runs; 'staleness', … can".
  static std::string CannotSentence(absl::string_view key);

  // ---- what the log says
  void Read(const v1::LogEntry& entry);
  // Puts what holds into a configuration.
  void Fill(v1::Configuration* configuration) const;

  // ---- a change
  void OnSet(const Message& message, const v1::SetRequest& request, Turn* turn);
  // Goes on with the change, and answers. Raises SettingChanged.
  void Advance(Turn* turn);

 private:
  struct Change {
    CallId call = 0;
    v1::SettingChange setting;
    std::string old_value;
    bool is_logged = false;
    v1::ConfigurationVersion version = {};
  };

  absl::Status CheckMaySet(const JobView& job) const;
  void OnLogged(const IoResult& result, Turn* turn);

  std::map<std::string, v1::SettingChange> logged_;  // By key.
  absl::optional<Change> change_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_RUNNING_SETTINGS_H_
