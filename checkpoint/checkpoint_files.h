#ifndef PARAMD_CHECKPOINT_CHECKPOINT_FILES_H_
#define PARAMD_CHECKPOINT_CHECKPOINT_FILES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "checkpoint/safetensors.h"
#include "checkpoint/slice_reader.h"

namespace paramd {

// The files of the checkpoint in one directory, and their bases in those beside
// it. Each is opened as it is asked for; at most 64 are open at once.
//
// A tensor of fewer bits, as a quantised checkpoint (quantization.h) and tables
// of bf16 have them, is found and read as float32.
//
// Not thread-safe.
class CheckpointFiles : public TensorSource {
 public:
  // Hears which bytes of the file were read, and from where.
  using Seen = absl::FunctionRef<void(uint64_t offset,
                                      absl::Span<const std::byte> bytes)>;

  explicit CheckpointFiles(std::string directory)
      : directory_(std::move(directory)) {}

  std::string PathOf(const File& file) const;

  absl::StatusOr<const TensorInfo*> Find(const File& file,
                                         const std::string& tensor) override;
  absl::Status Read(const File& file, const std::string& tensor,
                    uint64_t offset, absl::Span<std::byte> out) override {
    return ReadSeen(file, tensor, offset, out,
                    [](uint64_t, absl::Span<const std::byte>) {});
  }
  absl::Status ReadSeen(const File& file, const std::string& tensor,
                        uint64_t offset, absl::Span<std::byte> out, Seen seen);

  // Valid until another file is asked for.
  absl::StatusOr<const SafetensorsFile*> Open(const File& file);

 private:
  // The numbers that a tensor's integers are multiplied by.
  absl::StatusOr<const std::vector<float>*> ScalesOf(
      const SafetensorsFile& file, const std::string& path,
      const TensorInfo& tensor, Seen seen);

  const std::string directory_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> open_;  // By path.
  TensorInfo widened_;  // What Find answered last, where that is in no file.
  // By path and tensor.
  std::map<std::pair<std::string, std::string>, std::vector<float>> scales_;
};

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_CHECKPOINT_FILES_H_
