#ifndef PARAMD_CHECKPOINT_VERIFIED_FILES_H_
#define PARAMD_CHECKPOINT_VERIFIED_FILES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "checkpoint/checkpoint_files.h"
#include "checkpoint/file.h"
#include "checkpoint/range_sum.h"
#include "checkpoint/slice_reader.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// The files of a checkpoint, each with a sum of what is read of it, so that
// whether a file is what the manifest says costs no second reading: only what
// nobody wanted of it is read besides. Whoever reads numbers of a checkpoint
// reads them through this.
//
// Invariant: what was read counts only once Check has answered OK.
//
// Errors of files: UNAVAILABLE for what may pass (read_again.h), DATA_LOSS for
// all else, since whatever it is, an older checkpoint may be whole.
//
// Not thread-safe.
class VerifiedFiles : public TensorSource {
 public:
  // `directory` has the checkpoint that the manifest describes.
  VerifiedFiles(std::string directory, const v1::Manifest& manifest);

  // Check looks at this file and its base, read or not.
  void Count(const v1::ShardFile& file);
  // From now on it looks at whatever is read, too.
  void CountWhatIsRead() { count_what_is_read_ = true; }

  absl::StatusOr<const TensorInfo*> Find(const File& file,
                                         const std::string& tensor) override;
  absl::Status Read(const File& file, const std::string& tensor,
                    uint64_t offset, absl::Span<std::byte> out) override;

  // Of the files that count: how much was read, and all there is to read.
  uint64_t read_bytes() const { return read_bytes_; }
  uint64_t total_bytes() const { return total_bytes_; }

  // Whether the files that count have the sizes and checksums of the manifest,
  // for which the rest of them is read now. DATA_LOSS naming the first one that
  // has not. `progress`, unless null, is told read_bytes and total_bytes.
  absl::Status Check(const std::function<void(uint64_t bytes, uint64_t total)>&
                         progress = nullptr);

 private:
  RangeSum* CountPath(const std::string& path);
  absl::Status CheckFile(const std::string& path, RangeSum* sum,
                         const std::function<void(uint64_t bytes)>& progress);

  CheckpointFiles files_;
  bool count_what_is_read_ = false;
  // By path: what each file should be, and what was read of those that count.
  std::map<std::string, FileSum> expected_;
  std::map<std::string, RangeSum> sums_;
  uint64_t read_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

// A failure of reading a checkpoint's files, as VerifiedFiles says.
absl::Status OfCheckpointFile(const absl::Status& status);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_VERIFIED_FILES_H_
