#ifndef PARAMD_CHECKPOINT_CHECKPOINT_READER_H_
#define PARAMD_CHECKPOINT_CHECKPOINT_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "checkpoint/manifest.h"
#include "checkpoint/read_buffers.h"
#include "checkpoint/verified_files.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "tensor/buffer.h"

namespace paramd {

// The variables of one checkpoint, each as one run of numbers, whatever slices
// and files they were saved in. Holds no numbers itself but what was read
// last, at most 8 MiB, to read into again.
//
// What was read counts once Finish has answered OK: before, its checksums are
// not known. Only who knows already that the checkpoint is whole may do
// without.
//
// Not thread-safe.
class CheckpointReader {
 public:
  // A variable's values, or one of its slots.
  struct Numbers {
    const SliceIndex::Entry* entry;  // Of this reader's index.
    std::string slot;                // Empty: the values.

    uint64_t bytes() const;
    std::vector<uint64_t> shape() const;
    // A row's key or use.
    bool are_integers() const;
    // "dense/kernel", "dense/kernel/slot:momentum".
    std::string name() const;
  };

  // What ReadManifest fails with, or DATA_LOSS if the manifest's slices do not
  // make up its variables, or the directory is named after another checkpoint.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(
      const std::string& directory);

  const std::string& directory() const { return directory_; }
  const v1::Manifest& manifest() const { return manifest_; }
  const SliceIndex& index() const { return index_; }

  // Appends bytes [offset, offset + length). Outcomes are those of ReadSaved,
  // with the errors of files of VerifiedFiles.
  // REQUIRES: the range lies inside.
  absl::Status Read(const Numbers& numbers, uint64_t offset, uint64_t length,
                    BufferChain* out);

  // Hands over all of them from front to back, at most 4 MiB at a time, until
  // `take` returns an error, which is the result then.
  absl::Status ForEachPiece(
      const Numbers& numbers,
      const std::function<absl::Status(const Buffer& piece)>& take);

  // Of the checkpoint's files: how much was read, and all there is to read.
  uint64_t read_bytes() const { return files_.read_bytes(); }
  uint64_t total_bytes() const { return files_.total_bytes(); }

  // Whether all of the checkpoint's files are what its manifest says, for which
  // what has not been read of them is read now: VerifiedFiles::Check.
  absl::Status Finish(const std::function<void(uint64_t bytes, uint64_t total)>&
                          progress = nullptr);

 private:
  CheckpointReader(std::string directory, v1::Manifest manifest)
      : directory_(std::move(directory)),
        manifest_(std::move(manifest)),
        files_(directory_, manifest_),
        buffers_(uint64_t{8} << 20) {}

  const std::string directory_;
  const v1::Manifest manifest_;
  SliceIndex index_;
  VerifiedFiles files_;
  ReadBuffers buffers_;
};

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_CHECKPOINT_READER_H_
