#ifndef PARAMD_CHECKPOINT_CHECKPOINT_FILES_H_
#define PARAMD_CHECKPOINT_CHECKPOINT_FILES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "checkpoint/read_buffers.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/slice_reader.h"
#include "tensor/buffer.h"

namespace paramd {

// The files of the checkpoint in one directory, and their bases in those beside
// it. Each is opened as it is asked for; at most 64 are open at once.
//
// Not thread-safe.
class CheckpointFiles : public TensorSource {
 public:
  // Keeps at most so many bytes to read into again.
  explicit CheckpointFiles(std::string directory,
                           uint64_t spare_bytes = ReadBuffers::kRestoreBytes)
      : directory_(std::move(directory)), buffers_(spare_bytes) {}

  std::string PathOf(const File& file) const;

  absl::StatusOr<const TensorInfo*> Find(const File& file,
                                         const std::string& tensor) override;
  // Reads at most 4 MiB at once and no byte that is not wanted, into memory that
  // is used again when `out` is gone.
  absl::Status Read(const File& file, const std::string& tensor,
                    uint64_t offset, uint64_t length,
                    BufferChain* out) override;

  // Valid until another file is asked for.
  absl::StatusOr<const SafetensorsFile*> Open(const File& file);

 private:
  const std::string directory_;
  ReadBuffers buffers_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> open_;  // By path.
};

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_CHECKPOINT_FILES_H_
