#ifndef PARAMD_CHECKPOINT_SLICE_READER_H_
#define PARAMD_CHECKPOINT_SLICE_READER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "checkpoint/safetensors.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/buffer.h"

namespace paramd {

// Where the tensors of a checkpoint's files come from: a directory, or a map in
// a test.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // The tensor, valid until the next call; DATA_LOSS naming file and tensor if
  // there is none, or what opening the file failed with.
  virtual absl::StatusOr<const TensorInfo*> Find(const std::string& file,
                                                 const std::string& tensor) = 0;
  // Appends bytes [offset, offset + length) of a tensor that Find found.
  virtual absl::Status Read(const std::string& file, const std::string& tensor,
                            uint64_t offset, uint64_t length,
                            BufferChain* out) = 0;
};

// Reads the rows that `request` wants, in whatever slices `manifest` has them:
// for each wanted slice in order its values, then each wanted slot. `result`
// says which pieces they came from. INVALID_ARGUMENT naming the variable if the
// checkpoint does not have it, or with another shape; FAILED_PRECONDITION if it
// was saved without a wanted slot; DATA_LOSS if manifest and files disagree.
// On error `result` and `payload` hold a part.
absl::Status ReadSlices(const v1::ReadSlices& request,
                        const v1::Manifest& manifest, TensorSource* source,
                        v1::ReadSlicesResult* result, BufferChain* payload);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_SLICE_READER_H_
