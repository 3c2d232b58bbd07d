#ifndef PARAMD_COORDINATOR_CORE_BASE_FILES_H_
#define PARAMD_COORDINATOR_CORE_BASE_FILES_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// The committed checkpoint to which the next one may refer for blocks that have
// not changed since, its base: the newest one with all blocks that this
// coordinator has committed, until a given number of checkpoints have referred
// to it.
//
// Invariant: a base has all blocks itself. So reading a checkpoint takes at
// most two files of each server, and needs at most one other checkpoint.
//
// Not thread-safe: lives inside the coordinator's core.
class BaseFiles {
 public:
  // `most`: how many checkpoints in a row may refer to one. 0: none.
  explicit BaseFiles(uint32_t most) : most_(most) {}

  // The base of the next checkpoint; zero: it is to have all blocks.
  v1::SnapshotNumber Next() const;
  // Fills in what a server does not know of the base that it names.
  // kInvalidArgument, naming server and base, if that is not `base`, or has no
  // file of the server: then nothing has changed.
  absl::Status Complete(const v1::SnapshotNumber& base,
                        v1::ShardFile* file) const;

  // A checkpoint is being committed; the last one that was said is.
  void Committing(const v1::Manifest& manifest);
  void Committed(absl::string_view path);
  // It will be deleted.
  void Retired(const v1::SnapshotNumber& snapshot);

 private:
  struct Checkpoint {
    v1::SnapshotNumber snapshot;
    std::string directory;                   // Its name.
    std::map<uint32_t, v1::BaseFile> files;  // By server.
    bool has_all_blocks = false;
  };

  const uint32_t most_;
  Checkpoint base_;
  Checkpoint committing_;
  uint32_t used_ = 0;  // Checkpoints that refer to the base.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_BASE_FILES_H_
