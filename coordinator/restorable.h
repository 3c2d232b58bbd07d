#ifndef PARAMD_COORDINATOR_RESTORABLE_H_
#define PARAMD_COORDINATOR_RESTORABLE_H_

#include "absl/status/statusor.h"

#include "checkpoint/directory.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

// The checkpoint that a job goes on from, as CheckpointDirectory::Find does.
// Where its variables are not the job's, in what `find.allow_missing()` allows,
// its values alone are taken, and all of it is read first: the result has a
// warm start from it then. Where a keyed variable had another number of rows,
// or of rows in memory, its keys are read to find out whether they have room.
// One that is damaged, or can't be read, is passed over for an older one also
// then; each is logged.
//
// Errors are those of Find, UNAVAILABLE instead of DATA_LOSS if one that was
// passed over may be read later, and INVALID_ARGUMENT if the newest that can be
// read lacks what the job needs, or has more rows than a table has room for,
// with both numbers and a capacity that would do. An older one is not taken for
// that: a setting is wrong then, and what was trained since would be lost in
// silence.
absl::StatusOr<v1::FindCheckpointResult> FindRestorable(
    v1::FindCheckpoint find, CheckpointDirectory* checkpoints);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_RESTORABLE_H_
