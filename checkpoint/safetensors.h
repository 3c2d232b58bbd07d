#ifndef PARAMD_CHECKPOINT_SAFETENSORS_H_
#define PARAMD_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "checkpoint/file.h"
#include "tensor/buffer.h"

namespace paramd {

// The safetensors format (huggingface/safetensors, README "Format"): 8 bytes of
// header length N, little-endian; N bytes of JSON, padded with spaces so that N
// is a multiple of 8; then the tensors' bytes, without holes.

// A tensor in a file. Offsets count from the end of the header.
struct TensorInfo {
  std::string name;
  std::string dtype;  // "F32"
  std::vector<uint64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Bounds of the reader: the longest header (the format's own), name and rank.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;
inline constexpr size_t kMaxTensorNameBytes = 1024;
inline constexpr size_t kMaxTensorRank = 8;

// What a file says beside its tensors, by key.
using SafetensorsMetadata = std::map<std::string, std::string>;

// What stands in a file before the tensors' bytes, the length included.
// INVALID_ARGUMENT naming the tensor unless the reader would accept it: names
// are unique, not too long and UTF-8, offsets have no hole in the order given.
// The metadata, which is ASCII, comes behind the format's own.
absl::StatusOr<std::string> EncodeSafetensorsHeader(
    absl::Span<const TensorInfo> tensors,
    const SafetensorsMetadata& metadata = {});

// The tensors of a header's JSON, in the order of their bytes, `data_bytes` of
// which follow it. Strict: DATA_LOSS naming the tensor for what the format does
// not allow (holes, overlaps, sizes that are not shape times dtype, a name
// twice, bytes left over) or a bound exceeded. `metadata`, unless null, becomes
// the header's.
absl::StatusOr<std::vector<TensorInfo>> ParseSafetensorsHeader(
    absl::string_view json, uint64_t data_bytes,
    SafetensorsMetadata* metadata = nullptr);

// An open safetensors file. Immutable, hence thread-safe.
class SafetensorsFile {
 public:
  // DATA_LOSS naming the file and what is wrong with its header;
  // FAILED_PRECONDITION if it is a Git LFS pointer.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(
      const std::string& path);

  // In the order of their bytes.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }
  // Where in the file the tensors' bytes begin.
  uint64_t data_begin() const { return data_begin_; }
  // Null if there is none.
  const TensorInfo* Find(absl::string_view name) const;

  // Appends bytes [offset, offset + length) of the tensor, in buffers of at
  // most 4 MiB. DATA_LOSS if the file has shrunk. REQUIRES: `tensor` is one of
  // tensors(), the range lies inside.
  absl::Status Read(const TensorInfo& tensor, uint64_t offset, uint64_t length,
                    BufferChain* out) const;
  // Fills `out` with the bytes from `offset` on. As above.
  absl::Status ReadInto(const TensorInfo& tensor, uint64_t offset,
                        absl::Span<std::byte> out) const;

 private:
  SafetensorsFile(std::unique_ptr<ReadableFile> file, uint64_t data_begin,
                  std::vector<TensorInfo> tensors,
                  SafetensorsMetadata metadata);

  const std::unique_ptr<ReadableFile> file_;
  const uint64_t data_begin_;
  const std::vector<TensorInfo> tensors_;
  const SafetensorsMetadata metadata_;
  absl::flat_hash_map<absl::string_view, const TensorInfo*> by_name_;
};

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_SAFETENSORS_H_
