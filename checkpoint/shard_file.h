#ifndef PARAMD_CHECKPOINT_SHARD_FILE_H_
#define PARAMD_CHECKPOINT_SHARD_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "checkpoint/file.h"
#include "checkpoint/safetensors.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/buffer.h"

namespace paramd {

// The tensors of a request as they will lie in the file. INVALID_ARGUMENT
// naming what does not fit: the file's name, a dtype, a size, the payload's
// length, a slice that names a tensor which is not there.
absl::StatusOr<std::vector<TensorInfo>> PlanShardFile(
    const v1::WriteShard& request, uint64_t payload_bytes);

// All bytes of the file, those of the payload by reference. Errors are those of
// PlanShardFile.
absl::StatusOr<BufferChain> ShardFileBytes(const v1::WriteShard& request,
                                           const BufferChain& payload);

// Writes `payload` as the safetensors file `request.file().name()` in
// `request.directory()`: under a temporary name, synced, then renamed. On OK
// the file is durable and the result is the request's `file` with size and
// crc32c. On error nothing is left behind. The payload is not copied.
absl::StatusOr<v1::WriteShardResult> WriteShardFile(
    const v1::WriteShard& request, const BufferChain& payload);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_SHARD_FILE_H_
