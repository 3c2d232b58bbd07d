#ifndef PARAMD_CHECKPOINT_RETENTION_H_
#define PARAMD_CHECKPOINT_RETENTION_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

// What retention has to know of a committed checkpoint.
struct CheckpointSummary {
  v1::SnapshotNumber snapshot;
  uint64_t step = 0;
  absl::optional<absl::Time> created;  // As its chief's clock said.
  std::map<std::string, double> metrics;
  uint64_t metrics_step = 0;
  // Checkpoints that have blocks which its own files leave out.
  std::vector<v1::SnapshotNumber> bases;
};
CheckpointSummary Summarize(const v1::Manifest& manifest);

// Those of `checkpoints`, each there once, that need not stay, oldest first.
// A pure function; what stays:
//
// - the newest, and `keep` of the newest; all if `keep` is 0;
// - the first one in each span of `every_steps` steps: the one with the lowest
//   step;
// - one that was created at least `every_hours` after the last one that stays
//   for this reason, the oldest being the first; or before it: the clock was
//   set back;
// - the `best` by `metric`, one for each evaluation: the first after it. Of
//   equals the older. A metric that is no number is none;
// - what any of these needs: its bases, and theirs.
//
// One that is followed by a checkpoint with a lower step is of a course that
// the job has left: it stays neither for a span nor as one of the best.
std::vector<v1::SnapshotNumber> ToRetire(
    const v1::Retention& retention, std::vector<CheckpointSummary> checkpoints);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_RETENTION_H_
