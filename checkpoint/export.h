#ifndef PARAMD_CHECKPOINT_EXPORT_H_
#define PARAMD_CHECKPOINT_EXPORT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/file.h"
#include "tensor/number_format.h"

namespace paramd {

struct ExportOptions {
  enum class Layout {
    // A directory as the Hugging Face libraries have it: `model.safetensors`,
    // or
    // `model-00001-of-0000N.safetensors` and `model.safetensors.index.json`;
    // the
    // slots, if wanted, in the same way under `optimizer`.
    kSafetensors,
    // See TensorBundleWriter; values and slots in one.
    kTensorBundle,
  };

  Layout layout = Layout::kSafetensors;
  std::string to;  // The directory that is made.
  // Of the values; slots stay float32, as variances are too small for fewer
  // bits.
  NumberFormat dtype = NumberFormat::kFp32;
  // kSafetensors: a file has one tensor, or several of so many bytes together.
  uint64_t max_shard_bytes = 5'000'000'000;
  bool slots = false;  // With how often each variable was updated.
  // Told how many of the `total` bytes of the checkpoint have been read.
  std::function<void(uint64_t bytes, uint64_t total)> progress = nullptr;
};

struct ExportResult {
  std::string directory;           // Its path from the root.
  std::vector<std::string> files;  // In it.
  uint64_t tensors = 0;
  uint64_t bytes = 0;  // Of the tensors.
  // Of the values, and those of them that are zero.
  uint64_t numbers = 0;
  uint64_t zeros = 0;
  // Finite numbers that are too large for the dtype and became infinite.
  uint64_t overflowed = 0;
  // With slots: variables whose blocks have not all been updated as often.
  uint64_t uneven = 0;
};

// Writes the variables of a checkpoint, each merged into one tensor of its name
// (slots: `w/slot:momentum`, and as `w/slot:step` the updates that its blocks
// have taken: the most, where they differ), for other programs. The directory
// appears at one instant, complete and durable, or not at all; what is written
// first lies beside it under a hidden name. Holds at most 8 MiB of numbers at a
// time. What an export to the same place left there when it was killed is
// deleted. The whole checkpoint is read once, and its checksums are verified
// before the directory appears. ALREADY_EXISTS if there is something at `to`;
// otherwise what reading or writing fails with, and nothing is left.
absl::StatusOr<ExportResult> ExportCheckpoint(CheckpointReader* reader,
                                              const ExportOptions& options);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_EXPORT_H_
