#ifndef PARAMD_PROGRAM_SAVED_RUN_H_
#define PARAMD_PROGRAM_SAVED_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// What the newest checkpoint of a run says of it.
struct SavedRun {
  std::string path;  // Of the checkpoint.
  // The epoch that a job goes on in, from 1; after the last one: one more.
  uint32_t epoch = 1;
  // All that the job wants is trained.
  bool is_over = false;
  // What it was begun with.
  v1::JobRecord job;
};

// The newest checkpoint that this process finds in the job's directories; one
// that is damaged is passed over for an older one, and logged. NOT_FOUND,
// saying where it was looked for, if there is none; the errors of
// CheckpointDirectory::Find.
absl::StatusOr<SavedRun> FindSavedRun(const v1::JobConfig& job);

}  // namespace paramd

#endif  // PARAMD_PROGRAM_SAVED_RUN_H_
