#ifndef PARAMD_CHECKPOINT_CHECKPOINT_FILES_H_
#define PARAMD_CHECKPOINT_CHECKPOINT_FILES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "checkpoint/safetensors.h"
#include "checkpoint/slice_reader.h"

namespace paramd {

// The files of the checkpoint in one directory, and their bases in those beside
// it. Each is opened as it is asked for; at most 64 are open at once.
//
// Not thread-safe.
class CheckpointFiles : public TensorSource {
 public:
  explicit CheckpointFiles(std::string directory)
      : directory_(std::move(directory)) {}

  std::string PathOf(const File& file) const;

  absl::StatusOr<const TensorInfo*> Find(const File& file,
                                         const std::string& tensor) override;
  absl::Status Read(const File& file, const std::string& tensor,
                    uint64_t offset, absl::Span<std::byte> out) override;

  // Valid until another file is asked for.
  absl::StatusOr<const SafetensorsFile*> Open(const File& file);

 private:
  const std::string directory_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> open_;  // By path.
};

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_CHECKPOINT_FILES_H_
