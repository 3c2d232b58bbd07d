#ifndef PARAMD_CLI_STAGES_STAGE_MEETING_H_
#define PARAMD_CLI_STAGES_STAGE_MEETING_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace paramd {

// Where the processes of a cluster meet between two stages: in the directory of
// the first, which all of them share. None begins the next stage, with another
// digest, while another one still answers for the one before.
//
// Not thread-safe.
class StageMeeting {
 public:
  // `tasks`: all that train or serve, "ps-0". `self`: this one.
  StageMeeting(std::vector<std::string> tasks, std::string self,
               absl::Duration patience);

  // This process has ended the stage in `directory`.
  absl::Status Leave(const std::string& directory) const;

  // For the chief, before it records the stage: waits until all have left. Who
  // has not in time is named in the log, and waited for at the next start.
  void AwaitOthers(const std::string& directory) const;

  // For the others: until the chief has recorded it. UNAVAILABLE if it does not
  // in time.
  absl::Status AwaitRecord(const std::string& directory) const;

 private:
  std::vector<std::string> Missing(const std::string& directory) const;

  const std::vector<std::string> tasks_;
  const std::string self_;
  const absl::Duration patience_;
};

}  // namespace paramd

#endif  // PARAMD_CLI_STAGES_STAGE_MEETING_H_
