#ifndef PARAMD_CHECKPOINT_RESTORE_READER_H_
#define PARAMD_CHECKPOINT_RESTORE_READER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"

#include "proto/paramd/v1/storage.pb.h"
#include "tensor/buffer.h"

namespace paramd {

// Reads the slices that one server restores or a model is evaluated with, some
// at a time, and establishes on the way that whole files are what their
// manifest says (verified_files.h). So where a checkpoint is restored onto the
// servers that wrote it, every byte of it is read once.
//
// Invariant: the last slices are answered OK only if every file of the share,
// and its base, has the size and checksum of the manifest; for a reader that is
// alone also every file that its slices came from. All that was read before
// counts only then.
//
// Not thread-safe.
class RestoreReader {
 public:
  RestoreReader();
  ~RestoreReader();

  // As v1::ReadSlices says. The result's manifest has the run and, of the files
  // that the slices come from, their names and what they list as lost.
  // DATA_LOSS naming the file that is damaged, gone or can't be read,
  // UNAVAILABLE if it can't be read for a reason that may pass (read_again.h),
  // and the other outcomes of ReadSlices in slice_reader.h, which no other
  // checkpoint would mend. On error `result` and `payload` hold a part.
  //
  // A payload that is memory of blocks (BlocksTarget) is read into; into
  // another one that is not empty nothing is, and it is dropped.
  absl::Status Read(const v1::ReadSlices& request, v1::ReadSlicesResult* result,
                    BufferChain* payload);

 private:
  struct Open;

  std::string path_;
  std::unique_ptr<Open> open_;  // Null: nothing of `path_` was read yet.
};

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_RESTORE_READER_H_
