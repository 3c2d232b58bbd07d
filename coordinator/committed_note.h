#ifndef PARAMD_COORDINATOR_COMMITTED_NOTE_H_
#define PARAMD_COORDINATOR_COMMITTED_NOTE_H_

#include <string>

#include "absl/status/status.h"

namespace paramd {

// Says in a run's own directory that the run has checkpoints, and where. They
// may lie on a storage of their own, and one that is not mounted looks empty: a
// job that began anew there would train for days before anybody notices.
//
//   <run_dir>/committed      the directory of the checkpoints, then what its
//                            marker says (held_directory.h), a line each
//
// Not thread-safe.
class CommittedNote {
 public:
  explicit CommittedNote(std::string run_directory);

  // A checkpoint was committed in `directory`, whose marker is `marker`. OK
  // once that is written down and durable; writes only what is not known yet.
  absl::Status Committed(const std::string& directory,
                         const std::string& marker);

  // No checkpoint is found in `directory`. OK if the run never had one;
  // UNAVAILABLE naming both directories and the note if it had; what reading
  // the note failed with.
  absl::Status CheckNoneIsMissing(const std::string& directory) const;

  // Checkpoints are found in `directory`. OK unless another one, by its marker,
  // has those that the run committed last: UNAVAILABLE naming both.
  absl::Status CheckIsSame(const std::string& directory,
                           const std::string& marker) const;

 private:
  const std::string path_;
  std::string known_;  // What is written down.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_COMMITTED_NOTE_H_
