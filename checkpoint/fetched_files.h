#ifndef PARAMD_CHECKPOINT_FETCHED_FILES_H_
#define PARAMD_CHECKPOINT_FETCHED_FILES_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "checkpoint/file.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/buffer.h"

namespace paramd {

// Files of a checkpoint that come window by window, each in order, several side
// by side: those of servers that do not see the directory.
//
// Invariant: a file has its name once its last byte is durable, not before. One
// whose end never comes is gone with this object, or when files of another
// directory come.
//
// Not thread-safe. Bound: one open file a name of one directory.
class FetchedFiles {
 public:
  // Appends a window: see v1::WriteFetched. INVALID_ARGUMENT for a name that
  // can't be a file's in a checkpoint or a window beyond the total,
  // FAILED_PRECONDITION if it does not follow on what is there, or what writing
  // failed with: then the file is to be begun anew.
  absl::StatusOr<v1::WriteFetchedResult> Write(const v1::WriteFetched& request,
                                               const BufferChain& payload);

 private:
  absl::StatusOr<NewFile*> Open(const v1::WriteFetched& request);

  std::string directory_;
  std::map<std::string, std::unique_ptr<NewFile>> open_;  // By name.
};

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_FETCHED_FILES_H_
