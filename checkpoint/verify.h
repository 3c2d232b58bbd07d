#ifndef PARAMD_CHECKPOINT_VERIFY_H_
#define PARAMD_CHECKPOINT_VERIFY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "checkpoint/file.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// A checkpoint's directory by its name, "000001-00000005.step-9370": the
// snapshot's term and counter, then the step.
struct CheckpointName {
  v1::SnapshotNumber snapshot;
  uint64_t step = 0;
  std::string name;
};
std::string FormatCheckpointName(const v1::SnapshotNumber& snapshot,
                                 uint64_t step);
// Nothing if `name` is not the name of a committed checkpoint.
absl::optional<CheckpointName> ParseCheckpointName(absl::string_view name);
// The committed checkpoints in a directory, newest snapshot first, verified or
// not. NOT_FOUND if there is no such directory.
absl::StatusOr<std::vector<CheckpointName>> ListCheckpointNames(
    const std::string& root);

// The manifest of a checkpoint, checked by itself. DATA_LOSS if it is damaged,
// FAILED_PRECONDITION if it needs a newer reader, NOT_FOUND if there is none.
absl::StatusOr<v1::Manifest> ReadManifest(const std::string& directory);

// Whether the manifest is that of the checkpoint after which `directory` is
// named, if it is named after one; else DATA_LOSS.
absl::Status CheckCheckpointName(const std::string& directory,
                                 const v1::Manifest& manifest);

// Finds what is wrong with checkpoints. A file that several of them have, as
// the base of the others, is read once.
//
// Not thread-safe. Sees no change of a file that it has read.
class CheckpointVerifier {
 public:
  struct Options {
    // Of which files the checksums are looked at, for which they are read
    // wholly. Sizes and tensors always are, but for the sizes of kOwn's bases.
    enum class Sums {
      kAll,
      // Not of bases: a checkpoint that is about to be committed has bases that
      // have been committed.
      kOwn,
      kNone,
    };
    Sums sums = Sums::kAll;
    // Told, from time to time, how many of the `total` bytes of the checkpoint
    // at hand have been read.
    std::function<void(uint64_t bytes, uint64_t total)> progress = nullptr;
  };

  CheckpointVerifier() : CheckpointVerifier(Options()) {}
  explicit CheckpointVerifier(Options options);

  // Each thing that is wrong with the checkpoint in `directory`, in a sentence;
  // empty if nothing is. Besides what VerifyCheckpoint looks at: the index for
  // other tools.
  std::vector<absl::Status> Faults(const std::string& directory);

  // Whether the files that `manifest` names, and their bases, are in
  // `directory` and beside it with the sizes, checksums and tensors it says.
  // Reads them wholly unless told. DATA_LOSS naming the first one that is not,
  // or what opening it failed with.
  absl::Status CheckFiles(const std::string& directory,
                          const v1::Manifest& manifest);

 private:
  // What CheckFiles answers, the first or `all`.
  std::vector<absl::Status> FileFaults(const std::string& directory,
                                       const v1::Manifest& manifest, bool all);
  absl::Status CheckFile(const std::string& path, uint64_t bytes,
                         uint32_t crc32c);

  const Options options_;
  absl::flat_hash_map<std::string, FileSum> sums_;  // By path.
  uint64_t read_ = 0;
  uint64_t total_ = 0;
};

// DATA_LOSS naming the file and both numbers unless what was found is what the
// manifest says.
absl::Status CheckSize(const std::string& path, uint64_t found,
                       uint64_t expected);
absl::Status CheckSum(const std::string& path, uint32_t found,
                      uint32_t expected);

// CheckpointVerifier::CheckFiles.
absl::Status VerifyFiles(const std::string& directory,
                         const v1::Manifest& manifest,
                         const CheckpointVerifier::Options& options = {});

// ReadManifest and VerifyFiles, and that a directory with a checkpoint's name
// holds the checkpoint of that number.
absl::StatusOr<v1::Manifest> VerifyCheckpoint(
    const std::string& directory,
    const CheckpointVerifier::Options& options = {});

// OK unless the file at `path` is one of a checkpoint's and is not as that
// checkpoint's manifest says: what ReadManifest or reading it failed with, or
// DATA_LOSS.
absl::Status VerifyFileOfCheckpoint(const std::string& path);

// The directories of the checkpoints at `path`, newest first: `path` is the
// directory of a run, of its checkpoints, or of one checkpoint. NOT_FOUND
// naming the path if there is none.
absl::StatusOr<std::vector<std::string>> CheckpointsAt(const std::string& path);

// 16 digits that tell checkpoints apart by what is in them.
std::string ModelKey(const v1::Manifest& manifest);

// Of all files that the manifest names, without their bases.
uint64_t CheckpointBytes(const v1::Manifest& manifest);

// The text of `model.safetensors.index.json`, with which other tools open the
// directory as one model: every tensor and its file. Nothing if a file has a
// base: its tensors are not all here. The files have been verified.
inline constexpr char kTensorIndexFile[] = "model.safetensors.index.json";
absl::StatusOr<absl::optional<std::string>> EncodeTensorIndex(
    const std::string& directory, const v1::Manifest& manifest);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_VERIFY_H_
